//! The listener that a worker tells how well it does: an engine, a function, or nobody.

use std::fmt;
use std::sync::Arc;

use crankcase_engine::{Health, WithCauses};

type Tell = Arc<dyn Fn(Option<&str>) + Send + Sync>;

/// Whom a worker tells how well it does its work.
///
/// In an engine that is the worker's [`Health`]; elsewhere any function, or nobody. It is called in
/// the worker's own task, so it should not block.
///
/// # Examples
///
/// ```
/// use crankcase_workers::Condition;
///
/// let condition = Condition::told_to(|reason| match reason {
///     Some(reason) => eprintln!("degraded: {reason}"),
///     None => eprintln!("well again"),
/// });
/// # drop(condition);
/// ```
#[derive(Clone, Default)]
pub struct Condition {
    tell: Option<Tell>,
}

impl Condition {
    /// Returns a condition that nobody is told.
    pub fn untold() -> Self {
        Self::default()
    }

    /// Returns a condition that is told to `tell`: why the worker is degraded, or `None` when all
    /// is well again.
    pub fn told_to(tell: impl Fn(Option<&str>) + Send + Sync + 'static) -> Self {
        Self { tell: Some(Arc::new(tell)) }
    }

    /// Returns whether anybody is told.
    pub(crate) fn is_told(&self) -> bool {
        self.tell.is_some()
    }

    pub(crate) fn degraded(&self, reason: &str) {
        if let Some(tell) = &self.tell {
            tell(Some(reason));
        }
    }

    pub(crate) fn good(&self) {
        if let Some(tell) = &self.tell {
            tell(None);
        }
    }
}

impl From<Health> for Condition {
    fn from(health: Health) -> Self {
        Self::told_to(move |reason| match reason {
            Some(reason) => health.degraded(reason),
            None => health.good(),
        })
    }
}

impl fmt::Debug for Condition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Condition").field("is_told", &self.is_told()).finish()
    }
}

/// Returns an error with its causes, on one line.
pub(crate) fn chain(error: &(dyn std::error::Error + 'static)) -> String {
    WithCauses(error).to_string()
}
