//! What is left of an engine that has ended: what its last report is made of.

use std::fmt;
use std::sync::Arc;

use parking_lot::Mutex;

use super::EventLoop;
use super::brief::Brief;
use crate::seen::report::{EngineState, Report};
use crate::supervisor::shared::Shared;
use crate::vocabulary::clock::Timestamp;
use crate::vocabulary::name::Text;

/// What the last report is made of.
#[derive(Default)]
pub(crate) struct LastReport {
    state: Mutex<State>,
}

#[derive(Default)]
enum State {
    #[default]
    Running,
    /// The loop as it ended, and why, if not because it was killed.
    Ended(Box<EventLoop>, Option<String>),
    Summed(Arc<Summary>),
}

/// What is known of an engine that has ended. Most of its reports are never asked for, and each of
/// many workers would cost them several strings and its place in a map.
pub(super) struct Summary {
    pub(super) at: Timestamp,
    pub(super) error: Option<String>,
    pub(super) workers: Vec<Last>,
}

/// What is known of a worker at its engine's end.
pub(super) struct Last {
    pub(super) name: Text,
    pub(super) brief: Brief,
}

impl LastReport {
    /// Returns the last report of the engine that has this; `None` while it runs, or if its runtime
    /// went first.
    pub(crate) fn get(&self, shared: &Shared) -> Option<Report> {
        self.sum_up();
        let summary = match &*self.state.lock() {
            State::Summed(summary) => Arc::clone(summary),
            _ => return None,
        };
        Some(summary.report(shared))
    }

    /// Keeps what a report is made of, and lets all else go. Who comes meanwhile waits for it.
    fn sum_up(&self) {
        let mut state = self.state.lock();
        if let State::Ended(event_loop, error) = &mut *state {
            let summary = event_loop.summary(error.take());
            let ended = std::mem::replace(&mut *state, State::Summed(Arc::new(summary)));
            // What is let go may be much, and is nobody's to wait for.
            drop(state);
            drop(ended);
        }
    }
}

impl fmt::Debug for LastReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("LastReport")
    }
}

impl Summary {
    fn report(&self, shared: &Shared) -> Report {
        let path_of = |last: &Last| shared.environment.path_of(last.name.as_str());
        let left_behind = shared.left_behind().to_owned();
        let workers = self.workers.iter().map(|last| {
            let brief = last.brief.clone();
            (
                last.name.as_str().to_owned(),
                brief.into_report(path_of(last), shared.environment.clock.wall),
            )
        });
        Report {
            path: shared.environment.own_path().to_owned(),
            state: EngineState::Stopped,
            is_healthy: self.error.is_none() && left_behind.is_empty(),
            at: self.at,
            error: self.error.clone(),
            left_behind,
            workers: workers.collect(),
        }
    }
}

/// A loop that has ended. Dropping it sums it up and lets the rest go.
pub(super) struct Remains(Arc<Shared>);

impl Remains {
    pub(super) fn leave(event_loop: Box<EventLoop>, error: Option<String>) -> Self {
        let shared = Arc::clone(&event_loop.shared);
        *shared.last_report.state.lock() = State::Ended(event_loop, error);
        Self(shared)
    }
}

impl Drop for Remains {
    fn drop(&mut self) {
        self.0.last_report.sum_up();
    }
}
