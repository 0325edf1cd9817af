//! What is left of an engine that has ended: what its last report is made of.

use std::fmt;
use std::sync::Arc;

use parking_lot::Mutex;

use super::registry::Registry;
use super::worker_summary::WorkerSummary;
use crate::seen::report::{EngineState, Report};
use crate::vocabulary::clock::Stamp;
use crate::vocabulary::clock::Timestamp;
use crate::vocabulary::discard::discard;
use crate::vocabulary::name::Text;
use crate::worker::host::Environment;

/// What the last report is made of.
#[derive(Default)]
pub(crate) struct LastReport {
    state: Mutex<Kept>,
}

#[derive(Default)]
enum Kept {
    #[default]
    Running,
    /// The names as they were at the end, when that was, and why, if not because of a kill.
    Ended(Box<Registry>, Stamp, Option<String>),
    Summed(Arc<Summary>),
}

/// What is known of an engine that has ended. Most of its reports are never asked for, and each of
/// many workers would cost them several strings and its place in a map.
pub(super) struct Summary {
    pub(super) at: Timestamp,
    pub(super) error: Option<String>,
    pub(super) workers: Vec<LastWorker>,
}

/// What is known of a worker at its engine's end.
pub(super) struct LastWorker {
    pub(super) name: Text,
    pub(super) worker_summary: WorkerSummary,
}

impl LastReport {
    /// Returns the last report of the engine that has this; `None` while it runs, or if its runtime
    /// went first.
    pub(crate) fn get(&self, environment: &Environment, left_behind: &[String]) -> Option<Report> {
        self.sum_up();
        let summary = match &*self.state.lock() {
            Kept::Summed(summary) => Arc::clone(summary),
            _ => return None,
        };
        Some(summary.report(environment, left_behind))
    }

    /// Keeps what the last report is made of: the names as they were at this moment, and why the engine
    /// has ended, if not because of a kill.
    pub(super) fn keep(&self, registry: Box<Registry>, now: Stamp, error: Option<String>) {
        *self.state.lock() = Kept::Ended(registry, now, error);
    }

    /// Keeps what a report is made of, and lets all else go. Who comes meanwhile waits for it.
    pub(super) fn sum_up(&self) {
        let mut state = self.state.lock();
        if let Kept::Ended(registry, now, error) = &mut *state {
            let summary = registry.summary(error.take(), *now);
            let ended = std::mem::replace(&mut *state, Kept::Summed(Arc::new(summary)));
            drop(state);
            // It is much, and foreign code is in it.
            if let Kept::Ended(registry, ..) = ended {
                let runtime = registry.environment.workers.clone();
                discard(&runtime, registry);
            }
        }
    }
}

impl fmt::Debug for LastReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("LastReport")
    }
}

impl Summary {
    fn report(&self, environment: &Environment, left_behind: &[String]) -> Report {
        let path_of = |last: &LastWorker| environment.path_of(last.name.as_str());
        let left_behind = left_behind.to_owned();
        let workers = self.workers.iter().map(|last| {
            let worker_summary = last.worker_summary.clone();
            (
                last.name.as_str().to_owned(),
                worker_summary.into_report(path_of(last), environment.clock.wall),
            )
        });
        Report {
            path: environment.own_path().to_owned(),
            state: EngineState::Stopped,
            is_healthy: self.error.is_none() && left_behind.is_empty(),
            at: self.at,
            error: self.error.clone(),
            left_behind,
            workers: workers.collect(),
        }
    }
}
