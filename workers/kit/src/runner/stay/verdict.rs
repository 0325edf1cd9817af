//! What the end of a worker leads to, by the spec and by how it has ended.

use std::sync::Arc;
use std::time::Duration;

use crankcase_engine::{Exit, Policy};
use parking_lot::Mutex;
use rand::RngExt;
use rand::rngs::StdRng;

use crate::child::{End, caught};
use crate::runner::report::RunnerChildError;
use crate::runner::restart::Restart;

/// How a worker left a runner for good.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum Ending {
    /// It ended well, by itself or because it was told to; or it was between two starts.
    Well,
    /// It ended with this, by itself or when it was told to stop. A fatal exit is the runner's end,
    /// and stands here with its text only.
    Failed(Arc<Exit>),
    /// It did not end in its grace, or the runner was dropped, and so was its future.
    Dropped,
    /// It was stopped or replaced before its turn came, and never started.
    Withdrawn,
}

/// What comes after the end of a worker.
pub(super) enum Next {
    Again,
    Leave(Ending),
    /// Leave, and end the runner with this.
    Fatal(Exit),
}

pub(super) enum Verdict {
    Leave,
    Bounce,
    Failure,
}

/// Says what the end of a worker that nobody had asked for leads to.
pub(super) fn verdict(restart: Restart, end: &End) -> Verdict {
    match (end, restart) {
        (End::Outcome(Err(Exit::Uninstall)), _) | (_, Restart::Temporary) => Verdict::Leave,
        (End::Outcome(Err(Exit::Bounce)) | End::Dropped, _) => Verdict::Bounce,
        (End::Outcome(Ok(())), Restart::Transient) => Verdict::Leave,
        (End::Outcome(_), _) => Verdict::Failure,
    }
}

/// Returns what is to be said of an end that brings an error; of one that asks for something, there
/// is nothing.
pub(super) fn seen(end: &End) -> Option<RunnerChildError> {
    let End::Outcome(Err(exit)) = end else { return None };
    if matches!(exit, Exit::Bounce | Exit::Uninstall) {
        return None;
    }
    let text = caught(|| exit.to_string());
    let text = text.unwrap_or_else(|_| "its error cannot be written".to_owned());
    Some(RunnerChildError { text, is_panic: exit.is_panic() })
}

/// Returns what is to be said of an end without an error that is a failure all the same.
pub(super) fn unasked() -> RunnerChildError {
    RunnerChildError { text: "it ended by itself, and is permanent".to_owned(), is_panic: false }
}

impl Ending {
    pub(super) fn of(end: End) -> Self {
        match end {
            End::Outcome(Ok(()) | Err(Exit::Bounce | Exit::Uninstall)) => Self::Well,
            End::Outcome(Err(exit)) => Self::Failed(Arc::new(exit)),
            End::Dropped => Self::Dropped,
        }
    }
}

/// Returns the wait before a restart that is no failure, with the backoff's jitter.
pub(super) fn spread(policy: &Policy, random: &Mutex<StdRng>) -> Duration {
    let delay = policy.bounce_delay;
    let even = policy.backoff.clone().initial(delay).max(delay);
    even.delay(1, || random.lock().random_range(-1.0..=1.0))
}
