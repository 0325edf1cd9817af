//! What is known of one spec under a name: its worker, its failures and its next start.

use std::collections::VecDeque;
use std::sync::Arc;
use std::task::Waker;

use crankcase_engine::owner::Reporter;
use crankcase_engine::{Intensity, Policy, Stopper, WorkerState};
use parking_lot::Mutex;
use rand::RngExt;
use rand::rngs::StdRng;
use tokio::sync::Notify;
use tokio::task::Id;
use tokio::time::Instant;

use super::verdict::Ending;
use crate::moment::after;
use crate::runner::body::Recipe;
use crate::runner::report::RunnerChildError;

/// What a stay is doing.
///
/// Invariant: nobody is woken while this is locked.
pub(super) struct State {
    pub(super) phase: Phase,
    /// It is to leave, and starts nothing any more.
    pub(super) is_doomed: bool,
    /// It is to be started again without being judged.
    pub(super) is_bounced: bool,
    pub(super) generation: u32,
    /// How many times in a row it has failed.
    pub(super) failures: u32,
    /// How to get its workers, until it begins.
    pub(super) recipe: Option<Arc<dyn Recipe>>,
    /// Wakes the task that keeps it, from its first worker on.
    pub(super) keeper: Option<Waker>,
    /// Which task that is.
    pub(super) kept_by: Option<Id>,
    /// What tells its worker to stop, and that an input was lost.
    pub(super) stopper: Option<Stopper>,
    pub(super) told: Option<Instant>,
    /// Since when its worker is up.
    pub(super) since: Option<Instant>,
    pub(super) reporter: Option<Arc<Reporter>>,
    /// Its worker may set a reporter: it has not ended.
    pub(super) takes_reporter: bool,
    /// Tells those who wait that the state has changed, once anybody does.
    pub(super) waiting: Option<Arc<Notify>>,
    /// What most never have.
    pub(super) past: Option<Box<Past>>,
    pub(super) ending: Option<Ending>,
}

/// What is left of workers that have ended.
#[derive(Default)]
pub(super) struct Past {
    /// When the next is started.
    until: Option<Instant>,
    /// When the last failures were, if there is an intensity.
    recent: VecDeque<Instant>,
    pub(super) error: Option<RunnerChildError>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Phase {
    /// It waits for the one before to leave.
    Queued,
    Starting,
    Running,
    Delayed,
    BackingOff,
    Spent,
    Gone,
}

/// What is left to do to stop a worker. Whoever waits for that may run foreign code when woken.
#[must_use = "the worker is told by `tell`"]
pub(super) struct Telling {
    stopper: Option<Stopper>,
    keeper: Option<Waker>,
}

impl Telling {
    pub(super) fn tell(self) {
        if let Some(stopper) = self.stopper {
            stopper.stop();
        }
        // After that: its task looks at it.
        if let Some(keeper) = self.keeper {
            keeper.wake();
        }
    }
}

impl State {
    /// Returns that of a stay that waits for its turn.
    pub(super) fn queued(recipe: Arc<dyn Recipe>) -> Self {
        Self {
            phase: Phase::Queued,
            is_doomed: false,
            is_bounced: false,
            generation: 0,
            failures: 0,
            recipe: Some(recipe),
            keeper: None,
            kept_by: None,
            stopper: None,
            told: None,
            since: None,
            reporter: None,
            takes_reporter: false,
            waiting: None,
            past: None,
            ending: None,
        }
    }

    pub(super) fn enter(&mut self, phase: Phase) {
        self.phase = phase;
        self.since = None;
        if let Some(past) = &mut self.past {
            past.until = None;
        }
    }

    pub(super) fn rest(&mut self, phase: Phase, until: Instant) {
        self.enter(phase);
        self.past.get_or_insert_default().until = Some(until);
    }

    /// Returns when the next worker is started, if that has a time.
    pub(super) fn until(&self) -> Option<Instant> {
        self.past.as_ref().and_then(|past| past.until)
    }

    /// Notes that its worker is told to stop now; the caller tells it, once this is unlocked.
    pub(super) fn note_stop(&mut self, now: Instant) -> Telling {
        if self.stopper.is_some() {
            self.told.get_or_insert(now);
        }
        Telling { stopper: self.stopper.clone(), keeper: self.keeper.clone() }
    }

    /// Keeps what its last worker has failed with, if it has.
    pub(super) fn note_error(&mut self, error: Option<&RunnerChildError>) {
        if let Some(error) = error {
            self.past.get_or_insert_default().error = Some(error.clone());
        }
    }

    /// Counts a failure as an engine does.
    pub(super) fn fail(&mut self, policy: &Policy, now: Instant, random: &Mutex<StdRng>) {
        if self.since.is_some_and(|since| now - since >= policy.backoff.reset_after) {
            self.failures = 0;
        }
        self.failures = self.failures.saturating_add(1);
        let past = self.past.get_or_insert_default();
        let is_spent = policy.intensity.is_some_and(|intensity| past.exceeds(intensity, now));
        if is_spent {
            self.enter(Phase::Spent);
        } else {
            let delay =
                policy.backoff.delay(self.failures, || random.lock().random_range(-1.0..=1.0));
            self.rest(Phase::BackingOff, after(now, delay));
        }
    }

    /// Returns whether its worker is up, or never will be; nothing as long as that is open.
    pub(super) fn is_up(&self) -> Option<bool> {
        match self.phase {
            Phase::Running if self.told.is_none() => Some(true),
            Phase::Gone => Some(false),
            _ => None,
        }
    }

    pub(super) fn shown(&self, policy: &Policy, now: Instant) -> WorkerState {
        if let (Phase::Starting | Phase::Running, Some(told)) = (self.phase, self.told) {
            let passed = now - told;
            return if passed < policy.grace {
                WorkerState::Stopping
            } else if passed < policy.grace.saturating_add(policy.abort_grace) {
                WorkerState::Aborting
            } else {
                WorkerState::Stuck
            };
        }
        match self.phase {
            Phase::Queued => WorkerState::Waiting,
            Phase::Starting => WorkerState::Starting,
            Phase::Running => WorkerState::Running,
            Phase::Delayed => WorkerState::Delayed,
            Phase::BackingOff => WorkerState::BackingOff,
            Phase::Spent => WorkerState::Spent,
            Phase::Gone => WorkerState::Absent,
        }
    }
}

impl Past {
    /// Counts a failure of this moment; returns whether that is one too many.
    fn exceeds(&mut self, intensity: Intensity, now: Instant) -> bool {
        let limit = usize::try_from(intensity.failures).unwrap_or(usize::MAX);
        self.recent.push_back(now);
        while self.recent.len() > limit.saturating_add(1)
            || self.recent.front().is_some_and(|at| now - *at >= intensity.within)
        {
            self.recent.pop_front();
        }
        self.recent.len() > limit
    }
}
