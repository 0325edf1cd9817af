//! A manifold and the values for one start, with their types erased.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use smallvec::SmallVec;
use tokio::task::AbortHandle;

use super::context::Context;
use crate::machine::Need;
use crate::vocabulary::exit::Exit;
use crate::vocabulary::follow;
use crate::vocabulary::live_set;
use crate::vocabulary::name::Text;
use crate::vocabulary::selection::Selection;
use crate::vocabulary::settings::Settings;
use crate::vocabulary::value::{Kind, Value};

/// A manifold with the types of its inputs and its worker erased.
pub(crate) trait Blueprint: Send + Sync {
    fn inputs(&self) -> &[Declaration];

    fn offers(&self) -> &[&'static Kind];

    /// Starts a worker in a task or on a thread of its own. The worker's end is always sent.
    /// Returns `None` for a thread, which cannot be aborted.
    fn launch(self: Arc<Self>, launch: Launch) -> Option<AbortHandle>;

    /// Whether it only provides a value from outside.
    fn is_provided(&self) -> bool {
        false
    }
}

/// The values and settings for one start.
pub(crate) struct Launch {
    pub(crate) input_values: InputValues,
    pub(crate) ctx: Context,
    pub(crate) settings: Option<Arc<Settings>>,
    /// The checks that the worker must pass first, if there are any.
    pub(crate) entry: Option<Box<Checks>>,
}

/// One declared input.
#[derive(Debug, Clone)]
pub(crate) struct Declaration {
    pub(crate) name: Text,
    pub(crate) need: Need,
    pub(crate) kind: &'static Kind,
    /// The part of the value that the input asks for; `None` for the whole value.
    pub(crate) selection: Option<Arc<dyn Selection>>,
}

/// Most manifolds have no more inputs than this.
pub(crate) const FEW: usize = 8;

/// The value of one declared input at a start.
pub(crate) enum InputValue {
    Value(Value),
    Absent,
    Live(follow::Receiver<Option<Value>>),
    /// A live input that is required, with its value at the start.
    Latest(follow::Receiver<Option<Value>>, Value),
    Set(live_set::Followed),
}

/// The input values of one start. Most manifolds have at most one input.
pub(crate) type InputValues = SmallVec<[InputValue; 1]>;

impl InputValue {
    /// Returns the value of a live input. A required one has a first value.
    pub(crate) fn live(
        need: Need,
        receiver: follow::Receiver<Option<Value>>,
        first: Option<Value>,
    ) -> Self {
        match first.filter(|_| need == Need::LiveRequired) {
            Some(first) => Self::Latest(receiver, first),
            None => Self::Live(receiver),
        }
    }

    /// Whether the input has a value now.
    pub(crate) fn is_present(&self) -> bool {
        match self {
            Self::Value(_) | Self::Latest(..) | Self::Set(_) => true,
            Self::Absent => false,
            Self::Live(receiver) => receiver.peek(Option::is_some),
        }
    }
}

/// What one check returns for a worker that it admits. It is only held, and never used.
pub(crate) type Pass = Box<dyn Send>;

/// One check, with the values of its inputs.
pub(crate) type Check = Box<dyn FnOnce(&Context) -> Result<Pass, Exit> + Send>;

/// The checks that one worker must pass, outermost first, and what they returned.
#[derive(Default)]
pub(crate) struct Checks {
    pub(crate) checks: Vec<Check>,
    passes: Vec<Pass>,
    /// Whether a check has refused the worker.
    pub(crate) has_refused: bool,
    /// For the wrapper of the worker.
    pub(crate) outermost: Option<Outermost>,
}

/// The manifold as it is installed, with all its checks.
pub(crate) struct Outermost {
    pub(crate) manifold: Arc<dyn Blueprint>,
    /// Whether each of its inputs had a value.
    pub(crate) present: Box<[bool]>,
}

impl Checks {
    /// Returns the inputs of the manifold as it is installed, and whether each had a value.
    pub(crate) fn inputs(&self) -> Option<(&[Declaration], &[bool])> {
        self.outermost
            .as_ref()
            .map(|Outermost { manifold, present }| (manifold.inputs(), &**present))
    }

    /// Asks the checks in order, until one refuses.
    pub(crate) fn enter(&mut self, ctx: &Context) -> Result<(), Exit> {
        for check in std::mem::take(&mut self.checks) {
            let pass = check(ctx).inspect_err(|_| self.has_refused = true)?;
            self.passes.push(pass);
        }
        Ok(())
    }

    /// Drops all passes, innermost first.
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
