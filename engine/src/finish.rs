//! How the end of a worker is judged, in its own task.

use std::fmt::{self, Display};

use crate::exit::{BoxError, EndKind, Exit, Outcome, Panicked};
use crate::manifold::{Settings, Severity};
use crate::shared::Shared;
use crate::text;

/// A judged end.
#[derive(Debug)]
pub(crate) struct Finish {
    pub(crate) kind: EndKind,
    /// Why, if there is anything to say.
    pub(crate) failure: Option<Box<Failure>>,
}

/// Why a worker ended otherwise than by being done.
pub(crate) struct Failure {
    /// As it is kept: cut after 64 KiB.
    pub(crate) text: String,
    pub(crate) is_panic: bool,
    /// The error and how grave it is, if it stops the engine.
    pub(crate) fatal: Option<(Severity, BoxError)>,
}

impl fmt::Debug for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl Finish {
    /// Applies the filters and the classifier to an outcome.
    pub(crate) fn judge(outcome: Outcome, settings: Option<&Settings>, shared: &Shared) -> Self {
        let manifold = settings.and_then(|settings| settings.filter.as_ref());
        let outcome = [manifold, shared.filter.as_ref()].into_iter().flatten().fold(
            outcome,
            |outcome, filter| match outcome {
                Err(exit) if exit.error().is_some() => filter(exit),
                other => other,
            },
        );
        match outcome {
            Ok(()) => Self::done(),
            Err(Exit::Bounce) => Self { kind: EndKind::Bounce, failure: None },
            Err(Exit::Uninstall) => Self { kind: EndKind::Uninstall, failure: None },
            Err(Exit::Missing(reason)) => Self::because(EndKind::Missing, &reason, false),
            Err(exit) => {
                let own = settings.and_then(|settings| settings.classifier.as_ref());
                let severity = own.unwrap_or(&shared.classifier)(&exit);
                Self::of_error(exit, severity)
            }
        }
    }

    /// The end of a worker that is done: there is nothing to judge.
    pub(crate) fn done() -> Self {
        Self { kind: EndKind::Done, failure: None }
    }

    fn of_error(exit: Exit, severity: Severity) -> Self {
        let kind = if severity.is_fatal() { EndKind::Fatal } else { EndKind::Failed };
        let mut finish = Self::because(kind, &exit, exit.is_panic());
        if let Exit::Failed(error) | Exit::Fatal(error) = exit
            && severity.is_fatal()
            && let Some(failure) = &mut finish.failure
        {
            failure.fatal = Some((severity, error));
        }
        finish
    }

    fn because(kind: EndKind, why: &dyn Display, is_panic: bool) -> Self {
        let failure = Failure { text: text::written(why), is_panic, fatal: None };
        Self { kind, failure: Some(Box::new(failure)) }
    }

    /// The end of a worker whose filter, classifier or error text panicked.
    pub(crate) fn of_panic(panic: &Panicked) -> Self {
        Self::because(EndKind::Failed, panic, true)
    }

    /// The end of a worker that failed for a reason of the engine's.
    pub(crate) fn failed(text: String) -> Self {
        Self::because(EndKind::Failed, &text, false)
    }

    /// The end of a worker whose task was dropped.
    pub(crate) fn dropped() -> Self {
        Self { kind: EndKind::Dropped, failure: None }
    }
}
