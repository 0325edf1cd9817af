//! The time of one spec under a name of a runner, through all its restarts.

use std::fmt;
use std::sync::Arc;
use std::task::Waker;
use std::time::Duration;

use crankcase_engine::owner::{self, Reporter};
use crankcase_engine::{Exit, Name, Policy, Stop, Stopper};
use parking_lot::Mutex;
use rand::rngs::StdRng;
use tokio::runtime::Handle;
use tokio::time::Instant;

pub(super) use self::presence::Presence;
pub use self::verdict::Ending;

use self::signs::Signs;
use self::state::{Phase, State};
use self::verdict::{Next, Verdict, seen, spread, unasked, verdict};
use self::waiting::tell_change;
use super::names::Digest;
use super::report::{RunnerChild, RunnerChildError};
use super::restart::Restart;
use super::spec::{ChildContext, ChildSpec};
use super::table::Shared;
use crate::child::{End, caught};
use crate::moment::after;

mod presence;
mod signs;
mod state;
mod verdict;
mod waiting;

/// The time of one spec under a name.
pub(super) struct Stay {
    name: Name<()>,
    policy: Arc<Policy>,
    /// Where it runs.
    runtime: Handle,
    digest: Digest,
    restart: Restart,
    signs: Signs,
    state: Mutex<State>,
}

impl Stay {
    pub(super) fn new(
        name: Name<()>,
        digest: Digest,
        spec: ChildSpec,
        policy: Arc<Policy>,
    ) -> Self {
        Self {
            name,
            policy,
            runtime: Handle::current(),
            digest,
            restart: spec.restart(),
            signs: Signs::default(),
            state: Mutex::new(State::queued(spec.into_recipe())),
        }
    }

    pub(super) fn name(&self) -> &str {
        self.name.as_str()
    }

    /// Returns the digest of its name.
    pub(super) fn digest(&self) -> Digest {
        self.digest
    }

    pub(super) fn policy(&self) -> &Policy {
        &self.policy
    }

    pub(super) fn is_doomed(&self) -> bool {
        self.state.lock().is_doomed
    }

    /// Returns whether it is kept by the present task.
    pub(super) fn is_own_task(&self) -> bool {
        let kept_by = self.state.lock().kept_by;
        kept_by.is_some() && kept_by == tokio::task::try_id()
    }

    /// Runs it in a task, as the present stay of its name.
    pub(super) fn begin(self: &Arc<Self>, shared: &Arc<Shared>) {
        let mut state = self.state.lock();
        state.phase = Phase::Starting;
        let recipe = state.recipe.take();
        tell_change(state);
        if let Some(recipe) = recipe {
            let presence = Presence::new(Arc::clone(shared), Arc::clone(self));
            recipe.keep(presence, &self.runtime);
        }
    }

    /// Has it leave, as soon as its worker has ended.
    pub(super) fn doom(&self, now: Instant) {
        let mut state = self.state.lock();
        state.is_doomed = true;
        let telling = state.note_stop(now);
        tell_change(state);
        telling.tell();
    }

    /// Has its worker stopped and started again.
    pub(super) fn bounce(&self) -> Option<u32> {
        let now = Instant::now();
        let mut state = self.state.lock();
        if state.is_doomed || state.ending.is_some() {
            return None;
        }
        let generation = state.generation;
        // A bounce delay is not shortened, and leads to a new worker anyhow.
        let telling = (state.phase != Phase::Delayed).then(|| {
            state.is_bounced = true;
            state.note_stop(now)
        });
        tell_change(state);
        if let Some(telling) = telling {
            telling.tell();
        }
        Some(generation)
    }

    /// Tells its worker that an input of the runner was lost.
    pub(super) fn lose_input(&self) {
        let stopper = self.state.lock().stopper.clone();
        if let Some(stopper) = stopper {
            owner::lose_input(&stopper);
        }
    }

    /// Has its task end, and its worker be dropped. It is to be told to leave before: a task that is
    /// about to start a worker looks at that.
    pub(super) fn abort(&self) {
        self.signs.abort();
        self.wake_keeper();
    }

    /// Has the task that keeps it look at what it is to do.
    fn wake_keeper(&self) {
        let keeper = self.state.lock().keeper.clone();
        if let Some(keeper) = keeper {
            keeper.wake();
        }
    }

    /// Says that it will never be the present one.
    pub(super) fn withdraw(&self) {
        self.end(Ending::Withdrawn);
    }

    /// Says that it is over.
    pub(super) fn end(&self, ending: Ending) {
        let mut state = self.state.lock();
        state.enter(Phase::Gone);
        state.ending.get_or_insert(ending);
        // Who follows it for longer does not hold the task, nor what it never ran, nor its past.
        let held = (state.keeper.take(), state.recipe.take(), state.past.take());
        tell_change(state);
        // What a user made may panic when it is dropped; others are still to be told.
        drop(caught(|| drop(held)));
    }

    /// A worker's start has come to its end.
    pub(super) fn on_up(&self) {
        let now = Instant::now();
        let mut state = self.state.lock();
        state.enter(Phase::Running);
        state.since = Some(now);
        tell_change(state);
    }

    /// Sets the reporter of its worker. The worker is not gone while the reporter owes an answer.
    pub(super) fn set_reporter(
        &self,
        generation: u32,
        reporter: impl FnOnce(Option<Stopper>) -> Arc<Reporter>,
    ) {
        let mut state = self.state.lock();
        let reporter = reporter(state.stopper.clone());
        // After the worker's end, nothing would withdraw it.
        let old = if state.takes_reporter && state.generation == generation {
            state.reporter.replace(reporter)
        } else {
            Some(reporter)
        };
        drop(state);
        let_go(old);
    }

    /// Withdraws the reporter of its worker, which has ended. The worker is not gone before.
    fn withdraw_reporter(&self) {
        let mut state = self.state.lock();
        state.takes_reporter = false;
        let reporter = state.reporter.take();
        drop(state);
        let_go(reporter);
    }

    /// Returns the reporter of its worker, if it has one, and the runtime to ask it on.
    pub(super) fn reporter(&self) -> Option<(Arc<Reporter>, &Handle)> {
        let reporter = self.state.lock().reporter.clone()?;
        Some((reporter, &self.runtime))
    }

    pub(super) fn report(&self) -> RunnerChild {
        let (now, state) = (Instant::now(), self.state.lock());
        let waits = state.until().map(|until| until.saturating_duration_since(now).as_secs_f64());
        RunnerChild {
            state: state.shown(&self.policy, now),
            restart: self.restart,
            generation: state.generation,
            failures: state.failures,
            running_for: state.since.map(|since| now.duration_since(since).as_secs_f64()),
            next_try_in: waits,
            error: state.past.as_ref().and_then(|past| past.error.clone()),
            report: None,
            reporter: None,
        }
    }

    /// Begins the next generation in the present task; nothing if it is to leave.
    fn next_generation(self: &Arc<Self>, keeper: &Waker) -> Option<ChildContext> {
        let mut state = self.state.lock();
        if state.is_doomed {
            return None;
        }
        let (stopper, stop) = Stop::pair();
        if state.generation == 0 {
            // A task is woken the same way for ever.
            state.keeper = Some(keeper.clone());
            state.kept_by = tokio::task::try_id();
        } else {
            self.signs.begin_again();
        }
        state.enter(Phase::Starting);
        state.generation = state.generation.saturating_add(1);
        state.stopper = Some(stopper);
        state.takes_reporter = true;
        state.told = None;
        state.is_bounced = false;
        Some(ChildContext { stay: Arc::clone(self), generation: state.generation, stop })
    }

    /// Judges the end of its worker, and says what comes next.
    fn judge(&self, end: End, random: &Mutex<StdRng>) -> Next {
        // Before the lock: an error writes its own text.
        let seen = seen(&end);
        if let End::Outcome(Err(Exit::Fatal(error))) = end {
            return Next::Fatal(Exit::Fatal(error));
        }
        let mut state = self.state.lock();
        state.stopper = None;
        let is_told = state.is_doomed || state.is_bounced;
        let verdict = if state.is_doomed {
            Verdict::Leave
        } else if std::mem::take(&mut state.is_bounced) {
            Verdict::Bounce
        } else {
            verdict(self.restart, &end)
        };
        let (mut next, mut left, mut wait) = (Next::Again, None, None);
        let failed = match verdict {
            Verdict::Leave => {
                // From here on its name is free as soon as it has left.
                state.is_doomed = true;
                next = Next::Leave(Ending::of(end));
                seen
            }
            Verdict::Bounce => {
                let delay = spread(&self.policy, random);
                state.rest(Phase::Delayed, after(Instant::now(), delay));
                state.note_error(seen.as_ref());
                left = Some(end);
                seen
            }
            Verdict::Failure => {
                let (now, seen) = (Instant::now(), seen.unwrap_or_else(unasked));
                state.fail(&self.policy, now, random);
                state.note_error(Some(&seen));
                wait = state.until().map(|until| until.saturating_duration_since(now));
                left = Some(end);
                Some(seen)
            }
        };
        let failures = state.failures;
        tell_change(state);
        // An error that panics when it is dropped was a failure all the same.
        drop(caught(|| drop(left)));
        if let Some(failed) = failed {
            self.log(&failed, is_told, failures, wait);
        }
        next
    }

    /// Writes a failure into the log; whoever waits for its end, if anybody does, may not.
    fn log(&self, failed: &RunnerChildError, is_told: bool, failures: u32, wait: Option<Duration>) {
        let (worker, error) = (self.name.as_str(), &failed.text);
        if is_told {
            tracing::info!(worker, error, "a worker that was told to stop failed");
        } else {
            tracing::warn!(worker, error, failures, ?wait, "a worker failed");
        }
    }

    /// Says what its task is to do between two workers.
    fn rest(&self) -> Rest {
        let state = self.state.lock();
        if state.is_doomed {
            Rest::Leave
        } else if state.is_bounced {
            Rest::Start
        } else {
            Rest::Until(state.until())
        }
    }

    /// Nothing is left of its worker.
    fn on_gone(&self) {
        if self.signs.set_gone() {
            self.wake_keeper();
        }
    }
}

/// Withdraws a reporter. What a user made may panic when it is dropped.
fn let_go(reporter: Option<Arc<Reporter>>) {
    drop(caught(|| drop(reporter.map(|reporter| reporter.withdraw()))));
}

/// What a stay's task does between two workers.
enum Rest {
    Leave,
    Start,
    /// It waits, without a moment until it is woken.
    Until(Option<Instant>),
}

impl fmt::Debug for Stay {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = self.state.lock();
        f.debug_struct("Stay").field("name", &self.name()).field("phase", &state.phase).finish()
    }
}
