//! What a worker is started by and with, its types erased.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use smallvec::SmallVec;
use tokio::task::AbortHandle;

use super::context::Context;
use crate::machine::Need;
use crate::vocabulary::exit::Exit;
use crate::vocabulary::follow;
use crate::vocabulary::name::Text;
use crate::vocabulary::settings::Settings;
use crate::vocabulary::value::{Kind, Value};

/// A manifold with the types of its inputs and its worker erased.
pub(crate) trait Blueprint: Send + Sync {
    fn inputs(&self) -> &[Declaration];

    fn offers(&self) -> &[&'static Kind];

    /// Starts a worker in a task or thread of its own. Its end is always told, whatever happens.
    /// A thread cannot be aborted.
    fn launch(self: Arc<Self>, launch: Launch) -> Option<AbortHandle>;

    /// Whether it only hands in a value from outside.
    fn is_provided(&self) -> bool {
        false
    }
}

/// What a worker is started with.
pub(crate) struct Launch {
    pub(crate) input_values: InputValues,
    pub(crate) ctx: Context,
    pub(crate) settings: Option<Arc<Settings>>,
    /// What it must pass first, if anything.
    pub(crate) entry: Option<Box<Checks>>,
}

/// One declared input.
#[derive(Debug, Clone)]
pub(crate) struct Declaration {
    pub(crate) name: Text,
    pub(crate) need: Need,
    pub(crate) kind: &'static Kind,
}

/// As many inputs as most manifolds have at most.
pub(crate) const FEW: usize = 8;

/// What the engine gives for one declared input.
pub(crate) enum InputValue {
    Value(Value),
    Absent,
    Live(follow::Receiver<Option<Value>>),
}

/// What one start is given. Most manifolds have one input at most.
pub(crate) type InputValues = SmallVec<[InputValue; 1]>;

impl InputValue {
    /// Whether there is a value of the input now.
    pub(crate) fn is_present(&self) -> bool {
        match self {
            Self::Value(_) => true,
            Self::Absent => false,
            Self::Live(receiver) => receiver.peek(Option::is_some),
        }
    }
}

/// What one check gives to a worker that it admits, only to be held.
pub(crate) type Pass = Box<dyn Send>;

/// One check with the values of its inputs.
pub(crate) type Check = Box<dyn FnOnce(&Context) -> Result<Pass, Exit> + Send>;

/// The checks that one worker has to pass, the outermost first, and what they gave.
#[derive(Default)]
pub(crate) struct Checks {
    pub(crate) checks: Vec<Check>,
    passes: Vec<Pass>,
    /// For what stands around the worker.
    pub(crate) outermost: Option<Outermost>,
}

/// The manifold as it is installed, with all checks around it.
pub(crate) struct Outermost {
    pub(crate) manifold: Arc<dyn Blueprint>,
    /// Whether there was a value of each of its inputs.
    pub(crate) present: Box<[bool]>,
}

impl Checks {
    /// Returns the inputs of the manifold as it is installed, and whether there was a value of each.
    pub(crate) fn inputs(&self) -> Option<(&[Declaration], &[bool])> {
        self.outermost
            .as_ref()
            .map(|Outermost { manifold, present }| (manifold.inputs(), &**present))
    }

    /// Asks all checks, until one refuses.
    pub(crate) fn enter(&mut self, ctx: &Context) -> Result<(), Exit> {
        for check in std::mem::take(&mut self.checks) {
            self.passes.push(check(ctx)?);
        }
        Ok(())
    }

    /// Gives up all passes, the innermost first.
    pub(crate) fn leave(mut self) {
        let mut is_dropped = catch_unwind(AssertUnwindSafe(|| self.checks.clear())).is_ok();
        while let Some(pass) = self.passes.pop() {
            is_dropped &= catch_unwind(AssertUnwindSafe(|| drop(pass))).is_ok();
        }
        if !is_dropped {
            tracing::warn!("what an admission held panicked while it was dropped");
        }
    }
}

impl fmt::Debug for Checks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Checks")
            .field("checks", &self.checks.len())
            .field("passes", &self.passes.len())
            .finish()
    }
}
