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
/// Of several fatal errors, [`Engine::wait`](crate::Engine::wait) returns the gravest, and the
/// first of those that are equally grave.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Severity(u32);

impl Severity {
    /// A failure like any other: the worker is restarted.
    pub const ORDINARY: Self = Self(0);

    /// The least grave that stops the engine; what [`Exit::Fatal`] means without a classifier.
    pub const FATAL: Self = Self(1);

    /// Returns a fatal severity that is this much graver than the least.
    pub const fn fatal(degree: u16) -> Self {
        Self(1 + degree as u32)
    }

    /// Returns whether it stops the engine.
    pub const fn is_fatal(self) -> bool {
        self.0 > 0
    }
}

/// The classifier of an engine that was given none.
pub(crate) fn no_classifier(exit: &Exit) -> Severity {
    if matches!(exit, Exit::Fatal(_)) { Severity::FATAL } else { Severity::ORDINARY }
}

/// What a manifold sets for itself.
#[derive(Clone, Default)]
pub(crate) struct Settings {
    pub(crate) backoff: Option<Backoff>,
    pub(crate) bounce_delay: Option<Duration>,
    pub(crate) start_timeout: Option<Duration>,
    pub(crate) grace: Option<Duration>,
    pub(crate) abort_grace: Option<Duration>,
    pub(crate) report_deadline: Option<Duration>,
    pub(crate) intensity: Option<Intensity>,
    pub(crate) is_essential: bool,
    pub(crate) is_beside_engine: bool,
    /// The nested engine that it was installed with, and is taken out with; its own name if it is
    /// that.
    pub(crate) part_of: Option<Text>,
    /// The worker in another engine that hands over what it offers.
    pub(crate) handed_by: Option<HandedBy>,
    pub(crate) filter: Option<Filter>,
    pub(crate) classifier: Option<Classifier>,
}

impl Settings {
    /// Returns the engine's policy with this manifold's own fields in it.
    pub(crate) fn policy(&self, engine: &Policy) -> Policy {
        Policy {
            backoff: self.backoff.clone().unwrap_or_else(|| engine.backoff.clone()),
            bounce_delay: self.bounce_delay.unwrap_or(engine.bounce_delay),
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

/// Which worker hands over what a sink offers, as its engine sees it.
#[derive(Debug, Clone)]
pub(crate) enum HandedBy {
    /// One of the outer engine.
    Outer(Text),
    /// One of a nested engine.
    Nested { engine: Text, worker: Text },
}

impl HandedBy {
    /// Returns the path of the worker's engine, and its name there. `own` is the path of the engine
    /// that the sink is in.
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
