//! The last report of an engine, and the data that it is made of.

use std::fmt;
use std::sync::Arc;

use parking_lot::Mutex;

use super::registry::Registry;
use super::worker_summary::WorkerSummary;
use crate::seen::report::{EngineState, Report};
use crate::vocabulary::clock::{Stamp, Timestamp};
use crate::vocabulary::discard::discard;
use crate::vocabulary::name::Text;
use crate::worker::host::Environment;
use crate::worker::stop::cell::Linger;

/// The data of the last report.
#[derive(Default)]
pub(crate) struct LastReport {
    state: Mutex<Kept>,
}

#[derive(Default)]
enum Kept {
    #[default]
    Running,
    Ended(Ended),
    Summed(Arc<Summary>),
}

/// An engine at its end.
pub(super) struct Ended {
    pub(super) registry: Box<Registry>,
    pub(super) at: Stamp,
    /// None after a kill.
    pub(super) error: Option<String>,
    /// Keeps the worker that a nested engine is until the registry is dropped: manifolds may hold
    /// values of the outer engine.
    pub(super) outer: Option<Linger>,
}

/// A summary of an engine that has ended. It is not a report yet: most last reports are never asked
/// for, and a report needs several strings and a map entry for each worker.
pub(super) struct Summary {
    pub(super) at: Timestamp,
    pub(super) error: Option<String>,
    pub(super) workers: Vec<LastWorker>,
}

/// A summary of a worker at its engine's end.
pub(super) struct LastWorker {
    pub(super) name: Text,
    pub(super) worker_summary: WorkerSummary,
}

impl LastReport {
    /// Returns the last report of an engine; `None` while the engine runs, or if its loop was lost
    /// before the end.
    pub(crate) fn get(
        &self,
        environment: &Environment,
        left_behind: Vec<String>,
    ) -> Option<Report> {
        self.sum_up();
        let summary = match &*self.state.lock() {
            Kept::Summed(summary) => Arc::clone(summary),
            _ => return None,
        };
        Some(summary.report(environment, left_behind))
    }

    /// Keeps the names as they are now, and the error that ended the engine; no error after a kill.
    pub(super) fn keep(&self, ended: Ended) {
        *self.state.lock() = Kept::Ended(ended);
    }

    /// Turns the kept names into a summary and drops the rest. A caller of `get` waits meanwhile.
    pub(super) fn sum_up(&self) {
        let mut state = self.state.lock();
        if let Kept::Ended(ended) = &mut *state {
            let summary = ended.registry.summary(ended.error.take(), ended.at);
            let ended = std::mem::replace(&mut *state, Kept::Summed(Arc::new(summary)));
            drop(state);
            // The registry is large and holds foreign code.
            if let Kept::Ended(Ended { registry, outer, .. }) = ended {
                let runtime = registry.environment.workers.clone();
                // In this order.
                discard(&runtime, (registry, outer));
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
    fn report(&self, environment: &Environment, left_behind: Vec<String>) -> Report {
        let path_of = |last: &LastWorker| environment.path_of(last.name.as_str());
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
