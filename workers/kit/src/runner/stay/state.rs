use std::collections::VecDeque;
use std::sync::Arc;

use crankcase_engine::{Policy, Stopper, WorkerState};
use parking_lot::Mutex;
use rand::rngs::StdRng;
use tokio::task::{AbortHandle, Id};
use tokio::time::Instant;

use super::verdict::Ending;
use crate::moment::after;
use crate::runner::report::RunnerChildError;
use crate::runner::reporter::Reporter;

/// What a stay is doing.
pub(super) struct State {
    pub(super) phase: Phase,
    /// It is to leave, and starts nothing any more.
    pub(super) is_doomed: bool,
    /// It is to be started again without being judged.
    pub(super) is_bounced: bool,
    pub(super) stopper: Option<Stopper>,
    pub(super) told: Option<Instant>,
    pub(super) generation: u32,
    pub(super) failures: u32,
    /// When the last failures were, if there is an intensity.
    pub(super) recent: VecDeque<Instant>,
    /// Since when it has been in its phase.
    pub(super) since: Instant,
    pub(super) until: Option<Instant>,
    pub(super) error: Option<Box<RunnerChildError>>,
    pub(super) reporter: Option<Arc<Reporter>>,
    /// Which task keeps it, from its first moment on.
    pub(super) kept_by: Option<Id>,
    pub(super) task: Option<AbortHandle>,
    pub(super) ending: Option<Ending>,
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

impl State {
    /// Returns that of a stay that waits for its turn.
    pub(super) fn queued() -> Self {
        Self {
            phase: Phase::Queued,
            is_doomed: false,
            is_bounced: false,
            stopper: None,
            told: None,
            generation: 0,
            failures: 0,
            recent: VecDeque::new(),
            since: Instant::now(),
            until: None,
            error: None,
            reporter: None,
            kept_by: None,
            task: None,
            ending: None,
        }
    }

    pub(super) fn enter(&mut self, phase: Phase) {
        self.phase = phase;
        self.since = Instant::now();
        self.until = None;
    }

    pub(super) fn rest(&mut self, phase: Phase, until: Instant) {
        self.enter(phase);
        self.until = Some(until);
    }

    pub(super) fn tell(&mut self) {
        if let Some(stopper) = &self.stopper {
            stopper.stop();
            self.told.get_or_insert_with(Instant::now);
        }
    }

    /// Counts a failure as an engine does.
    pub(super) fn fail(&mut self, policy: &Policy, now: Instant, random: &Mutex<StdRng>) {
        let has_run = self.phase == Phase::Running;
        if has_run && now - self.since >= policy.backoff.reset_after {
            self.failures = 0;
        }
        self.failures = self.failures.saturating_add(1);
        let is_spent = policy.intensity.is_some_and(|intensity| {
            let limit = usize::try_from(intensity.failures).unwrap_or(usize::MAX);
            self.recent.push_back(now);
            while self.recent.len() > limit.saturating_add(1)
                || self.recent.front().is_some_and(|at| now - *at >= intensity.within)
            {
                self.recent.pop_front();
            }
            self.recent.len() > limit
        });
        if is_spent {
            self.enter(Phase::Spent);
        } else {
            let delay = policy.backoff.delay(self.failures, &mut *random.lock());
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
