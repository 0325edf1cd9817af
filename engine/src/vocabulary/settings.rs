//! What one manifold sets for itself, in place of what the engine has for all.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::vocabulary::backoff::{Backoff, Intensity};
use crate::vocabulary::exit::{Exit, Outcome};
use crate::vocabulary::name::Text;
use crate::vocabulary::policy::Policy;

/// Maps an error to what it means.
pub(crate) type Filter = Arc<dyn Fn(Exit) -> Outcome + Send + Sync>;

/// Says how grave an error is.
pub(crate) type Classifier = Arc<dyn Fn(&Exit) -> Severity + Send + Sync>;

/// How grave an error is: an ordinary failure, or one that stops the engine.
///
/// [`Engine::wait`](crate::Engine::wait) returns the gravest fatal error, and the first one among
/// those that are equally grave.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Severity(u32);

impl Severity {
    /// A failure like any other: the worker is restarted.
    pub const ORDINARY: Self = Self(0);

    /// The lowest severity that stops the engine. [`Exit::Fatal`] has it without a classifier.
    pub const FATAL: Self = Self(1);

    /// Returns the fatal severity that is `degree` above the lowest.
    pub const fn fatal(degree: u16) -> Self {
        Self(1 + degree as u32)
    }

    /// Whether it stops the engine.
    pub const fn is_fatal(self) -> bool {
        self.0 > 0
    }
}

/// Returns the severity of an exit in an engine without a classifier.
pub(crate) fn no_classifier(exit: &Exit) -> Severity {
    if matches!(exit, Exit::Fatal(_)) { Severity::FATAL } else { Severity::ORDINARY }
}

/// The settings of one manifold. Those that are `None` come from the engine.
#[derive(Clone, Default)]
pub(crate) struct Settings {
    pub(crate) backoff: Option<Backoff>,
    pub(crate) bounce_delay: Option<Duration>,
    pub(crate) max_bounce_delay: Option<Duration>,
    pub(crate) start_timeout: Option<Duration>,
    pub(crate) grace: Option<Duration>,
    pub(crate) abort_grace: Option<Duration>,
    pub(crate) report_deadline: Option<Duration>,
    pub(crate) intensity: Option<Intensity>,
    pub(crate) is_essential: bool,
    pub(crate) is_beside_engine: bool,
    /// Whether its worker passes a value across a border, and is shown only if that was asked for.
    pub(crate) is_carrier: bool,
    /// The nested engine with which the manifold is installed and uninstalled. A nested engine's
    /// own manifold has its own name here.
    pub(crate) part_of: Option<Text>,
    /// The worker in another engine that hands over the value that this manifold offers.
    pub(crate) handed_by: Option<HandedBy>,
    pub(crate) filter: Option<Filter>,
    pub(crate) classifier: Option<Classifier>,
}

impl Settings {
    /// Returns the engine's policy, with the fields that this manifold sets.
    pub(crate) fn policy(&self, engine: &Policy) -> Policy {
        // A manifold whose bounce delay is zero never waits, so the engine's longest delay is not
        // for it.
        let never_waits = self.bounce_delay.is_some_and(|delay| delay.is_zero());
        let longest = engine.max_bounce_delay.filter(|_| !never_waits);
        Policy {
            backoff: self.backoff.clone().unwrap_or_else(|| engine.backoff.clone()),
            bounce_delay: self.bounce_delay.unwrap_or(engine.bounce_delay),
            max_bounce_delay: self.max_bounce_delay.or(longest),
            start_timeout: self.start_timeout.unwrap_or(engine.start_timeout),
            grace: self.grace.unwrap_or(engine.grace),
            abort_grace: self.abort_grace.unwrap_or(engine.abort_grace),
            report_deadline: self.report_deadline.unwrap_or(engine.report_deadline),
            intensity: self.intensity.or(engine.intensity),
        }
    }
}

impl fmt::Debug for Settings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Settings").field("is_essential", &self.is_essential).finish_non_exhaustive()
    }
}

/// The worker that hands over the value of an import or an export, as seen from the engine that
/// offers the value.
#[derive(Debug, Clone)]
pub(crate) enum HandedBy {
    /// A worker of the outer engine.
    Outer(Text),
    /// A worker of a nested engine.
    Nested { engine: Text, worker: Text },
}

impl HandedBy {
    /// Returns the path of the worker's engine, and the worker's name there. `own` is the path of
    /// the engine that offers the value.
    pub(crate) fn place(self, own: &str) -> (String, Text) {
        match self {
            Self::Outer(worker) => {
                let outer = own.rsplit_once('/').map_or("", |(outer, _)| outer);
                (outer.to_owned(), worker)
            }
            Self::Nested { engine, worker } => (format!("{own}/{}", engine.as_str()), worker),
        }
    }
}
