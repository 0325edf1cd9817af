//! The input through which a worker gets a handle on its own engine.

use super::Engine;
use crate::manifolds::input::{Declared, Given, Inputs};

/// The engine as an input of its own workers, to install manifolds and ask about other workers.
///
/// The handle does not keep the engine running. It knows its worker, and refuses a call in which
/// that worker would wait for its own end.
#[derive(Debug, Clone, Copy, Default)]
pub struct EngineInput;

impl Inputs for EngineInput {
    type Values = Engine;
    type Owned = Self;

    fn declare(&self, _declared: &mut Declared) {}

    fn take(&self, given: &mut Given) -> Engine {
        Engine::for_worker(given.context().identity())
    }

    fn into_owned(self) -> Self {
        self
    }
}
