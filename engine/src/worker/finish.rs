//! How the end of a worker is judged: in its own task, and nowhere else.

use std::fmt::{self, Display};

use crate::supervisor::shared::Shared;
use crate::vocabulary::error::SharedError;
use crate::vocabulary::exit::{EndKind, Exit, Outcome, Panicked};
use crate::vocabulary::policy::Policy;
use crate::vocabulary::settings::{Settings, Severity};
use crate::vocabulary::text;
use crate::worker::stop::Stop;

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
    pub(crate) fatal: Option<(Severity, SharedError)>,
}

impl fmt::Debug for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// How a worker's future, or its thread, has come to its end.
#[derive(Debug)]
pub(crate) enum Last {
    Outcome(Outcome),
    /// It was dropped.
    Dropped,
    /// There is no thread for it.
    NoThread,
}

impl Finish {
    /// Judges an end: applies the filters and the classifier to an outcome, and says what an end
    /// means that the engine has asked for.
    pub(crate) fn judge(
        last: Last,
        stop: &Stop,
        settings: Option<&Settings>,
        shared: &Shared,
    ) -> Self {
        match last {
            Last::Outcome(Err(exit)) => Self::of_exit(exit, stop, settings, shared),
            Last::NoThread => Self::failed("cannot make a thread for it"),
            Last::Outcome(Ok(())) | Last::Dropped if stop.is_overdue() => {
                Self::failed(&overdue(settings, &shared.policy))
            }
            Last::Outcome(Ok(())) => Self::of_done(stop),
            Last::Dropped if stop.is_aborted() => Self { kind: EndKind::Stopped, failure: None },
            Last::Dropped => Self { kind: EndKind::Dropped, failure: None },
        }
    }

    fn of_done(stop: &Stop) -> Self {
        let kind = if stop.is_stopped() { EndKind::Stopped } else { EndKind::Done };
        Self { kind, failure: None }
    }

    fn of_exit(exit: Exit, stop: &Stop, settings: Option<&Settings>, shared: &Shared) -> Self {
        let manifold = settings.and_then(|settings| settings.filter.as_ref());
        let mut outcome = Err(exit);
        for filter in [manifold, shared.filter.as_ref()].into_iter().flatten() {
            outcome = match outcome {
                Err(exit) if exit.error().is_some() => filter(exit),
                other => other,
            };
        }
        match outcome {
            Ok(()) => Self::of_done(stop),
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

    fn of_error(exit: Exit, severity: Severity) -> Self {
        let kind = if severity.is_fatal() { EndKind::Fatal } else { EndKind::Failed };
        let mut finish = Self::because(kind, &exit, exit.is_panic());
        if let Exit::Failed(error) | Exit::Fatal(error) = exit
            && severity.is_fatal()
            && let Some(failure) = &mut finish.failure
        {
            failure.fatal = Some((severity, SharedError::new(error, failure.text.clone())));
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

    fn failed(text: &str) -> Self {
        Self::because(EndKind::Failed, &text, false)
    }
}

/// Returns the error of a start that took too long.
pub(crate) fn overdue(settings: Option<&Settings>, policy: &Policy) -> String {
    let own = settings.and_then(|settings| settings.start_timeout);
    let timeout = humantime::format_duration(own.unwrap_or(policy.start_timeout));
    format!("its start took longer than {timeout}")
}
