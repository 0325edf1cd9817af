//! Judges how a worker has ended. This always happens in the worker's own task or thread.

use std::fmt::Display;
use std::panic::{AssertUnwindSafe, catch_unwind};

use super::finish::{Failure, Finish, TaskEnd};
use super::host::Environment;
use super::stop::Stop;
use crate::vocabulary::error::SharedError;
use crate::vocabulary::exit::{EndKind, Exit, Panicked};
use crate::vocabulary::policy::Policy;
use crate::vocabulary::settings::{Settings, Severity};
use crate::vocabulary::text;

impl Finish {
    /// Judges an end. Applies the filters and the classifier to an error. Decides what an end means
    /// that the engine asked for.
    pub(crate) fn judge(
        last: TaskEnd,
        stop: &Stop,
        settings: Option<&Settings>,
        environment: &Environment,
    ) -> Self {
        match last {
            TaskEnd::Outcome(Err(exit)) => Self::of_exit(exit, stop, settings, environment),
            TaskEnd::NoThread => Self::failed("cannot make a thread for it"),
            TaskEnd::Outcome(Ok(())) | TaskEnd::Dropped if stop.is_overdue() => {
                Self::failed(&overdue(settings, &environment.policy))
            }
            TaskEnd::Outcome(Ok(())) => Self::of_done(stop),
            TaskEnd::Dropped if stop.is_aborted() => Self { kind: EndKind::Stopped, failure: None },
            TaskEnd::Dropped => Self { kind: EndKind::Dropped, failure: None },
        }
    }

    fn of_done(stop: &Stop) -> Self {
        let kind = if stop.is_stopped() { EndKind::Stopped } else { EndKind::Done };
        Self { kind, failure: None }
    }

    fn of_exit(
        exit: Exit,
        stop: &Stop,
        settings: Option<&Settings>,
        environment: &Environment,
    ) -> Self {
        let manifold = settings.and_then(|settings| settings.filter.as_ref());
        let mut outcome = Err(exit);
        for filter in [manifold, environment.filter.as_ref()].into_iter().flatten() {
            outcome = match outcome {
                Err(exit) if exit.error().is_some() => filter(exit),
                other => other,
            };
        }
        match outcome {
            Ok(()) => Self::of_done(stop),
            Err(Exit::Bounce) => Self { kind: EndKind::Bounce, failure: None },
            Err(Exit::Uninstall) => Self { kind: EndKind::Uninstall, failure: None },
            Err(Exit::Missing(reason)) => Self::because(EndKind::Missing, &reason, None),
            Err(exit) => {
                let own = settings.and_then(|settings| settings.classifier.as_ref());
                let severity = own.unwrap_or(&environment.classifier)(&exit);
                Self::of_error(exit, severity)
            }
        }
    }

    fn of_error(exit: Exit, severity: Severity) -> Self {
        let kind = if severity.is_fatal() { EndKind::Fatal } else { EndKind::Failed };
        let panicked = exit.error().and_then(|error| error.downcast_ref());
        let mut finish = Self::because(kind, &exit, panicked);
        if let Exit::Failed(error) | Exit::Fatal(error) = exit
            && severity.is_fatal()
            && let Some(failure) = &mut finish.failure
        {
            failure.fatal = Some((severity, SharedError::new(error, failure.text.clone())));
        }
        finish
    }

    fn because(kind: EndKind, why: &dyn Display, panicked: Option<&Panicked>) -> Self {
        // An error means the same if its text panics.
        let written = catch_unwind(AssertUnwindSafe(|| text::written(why)));
        let failure = match written {
            Ok(text) => Failure::new(text, panicked),
            Err(payload) => {
                let panicked = Panicked::from_payload(payload);
                Failure::new(panicked.to_string(), Some(&panicked))
            }
        };
        Self { kind, failure: Some(Box::new(failure)) }
    }

    /// Returns the end of a worker whose filter or classifier panicked.
    pub(crate) fn of_panic(panic: &Panicked) -> Self {
        Self::because(EndKind::Failed, panic, Some(panic))
    }

    fn failed(text: &str) -> Self {
        Self::because(EndKind::Failed, &text, None)
    }
}

/// Returns the error text for a start that took too long.
pub(crate) fn overdue(settings: Option<&Settings>, policy: &Policy) -> String {
    let own = settings.and_then(|settings| settings.start_timeout);
    let timeout = humantime::format_duration(own.unwrap_or(policy.start_timeout));
    format!("its start took longer than {timeout}")
}
