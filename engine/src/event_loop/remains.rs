//! The last report of an engine that has ended.

use std::fmt;
use std::sync::Arc;

use parking_lot::Mutex;

use super::EventLoop;
use crate::engine::Verdict;
use crate::report::Report;
use crate::shared::Shared;

/// The last report, or what it will be made of.
#[derive(Default)]
pub(crate) struct LastReport {
    state: Mutex<State>,
}

#[derive(Default)]
enum State {
    #[default]
    Running,
    /// The loop as it ended, and how.
    Ended(Box<EventLoop>, Verdict),
    Made(Report),
}

impl LastReport {
    /// Returns the last report; `None` while the engine runs, or if its runtime went first.
    pub(crate) fn get(&self) -> Option<Report> {
        self.make();
        match &*self.state.lock() {
            State::Made(report) => Some(report.clone()),
            _ => None,
        }
    }

    /// Makes the report if it is still to be made. Who comes meanwhile waits for it.
    fn make(&self) {
        let mut state = self.state.lock();
        if let State::Ended(event_loop, verdict) = &*state {
            let report = event_loop.last_report(verdict.text());
            let ended = std::mem::replace(&mut *state, State::Made(report));
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

/// A loop that has ended. Dropping it makes the report and lets the rest go.
pub(super) struct Remains(Arc<Shared>);

impl Remains {
    pub(super) fn leave(event_loop: EventLoop, verdict: Verdict) -> Self {
        let shared = Arc::clone(&event_loop.shared);
        *shared.last_report.state.lock() = State::Ended(Box::new(event_loop), verdict);
        Self(shared)
    }
}

impl Drop for Remains {
    fn drop(&mut self) {
        self.0.last_report.make();
    }
}
