use super::Engine;
use crate::manifolds::input::{Declared, Given, Inputs};

/// The engine as an input of its own workers, to install and look at others.
///
/// The handle keeps nothing alive. It knows which worker it was given to: a call through it that
/// would wait for that worker's own end is refused.
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
