use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crankcase_engine::{Exit, Name, Policy, Stop};
use parking_lot::Mutex;
use rand::rngs::StdRng;
use tokio::runtime::Handle;
use tokio::sync::{Notify, oneshot};
use tokio::time::Instant;

pub use self::verdict::Ending;

use self::presence::Presence;
use self::state::{Phase, State};
use self::verdict::{Next, Verdict, seen, spread, verdict};
use super::report::RunnerChild;
use super::reporter::{Answer, Reporter};
use super::spec::{ChildContext, ChildSpec};
use super::table::Shared;
use crate::child::End;
use crate::moment::{after, until};

mod presence;
mod state;
mod verdict;

/// The time of one spec under a name.
pub(super) struct Stay {
    name: Name<()>,
    spec: ChildSpec,
    policy: Arc<Policy>,
    /// Where it runs.
    runtime: Handle,
    state: Mutex<State>,
    /// Nothing is left of its last worker.
    is_gone: AtomicBool,
    /// Tells the stay's task and those who wait that the state has changed.
    changed: Notify,
}

impl Stay {
    pub(super) fn new(name: Name<()>, spec: ChildSpec, policy: Arc<Policy>) -> Self {
        Self {
            name,
            spec,
            policy,
            runtime: Handle::current(),
            state: Mutex::new(State::queued()),
            is_gone: AtomicBool::new(true),
            changed: Notify::new(),
        }
    }

    pub(super) fn name(&self) -> &str {
        self.name.as_str()
    }

    /// Returns the name in a form that is cheap to clone.
    pub(super) fn key(&self) -> &Name<()> {
        &self.name
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
        self.state.lock().phase = Phase::Starting;
        self.changed.notify_waiters();
        let presence = Presence::new(Arc::clone(shared), Arc::clone(self));
        let task = self.runtime.spawn(presence.keep()).abort_handle();
        self.state.lock().task = Some(task.clone());
        if shared.has_ended() {
            task.abort();
        }
    }

    /// Notes that it is kept by the present task.
    fn keep_here(&self) {
        self.state.lock().kept_by = tokio::task::try_id();
    }

    /// Has it leave, as soon as its worker has ended.
    pub(super) fn doom(&self) {
        let mut state = self.state.lock();
        state.is_doomed = true;
        state.tell();
        drop(state);
        self.changed.notify_waiters();
    }

    /// Has its worker stopped and started again.
    pub(super) fn bounce(&self) -> Option<u32> {
        let mut state = self.state.lock();
        if state.is_doomed || state.ending.is_some() {
            return None;
        }
        let generation = state.generation;
        // A bounce delay is not shortened, and leads to a new worker anyhow.
        if state.phase != Phase::Delayed {
            state.is_bounced = true;
            state.tell();
        }
        drop(state);
        self.changed.notify_waiters();
        Some(generation)
    }

    /// Tells its worker that an input of the runner was lost.
    pub(super) fn lose_input(&self) {
        if let Some(stopper) = &self.state.lock().stopper {
            stopper.lose_input();
        }
    }

    pub(super) fn abort(&self) {
        let task = self.state.lock().task.clone();
        if let Some(task) = task {
            task.abort();
        }
    }

    /// Says that it will never be the present one.
    pub(super) fn withdraw(&self) {
        self.end(Ending::Withdrawn);
    }

    /// Says that it is over.
    pub(super) fn end(&self, ending: Ending) {
        let mut state = self.state.lock();
        state.phase = Phase::Gone;
        state.until = None;
        state.ending.get_or_insert(ending);
        let reporter = state.reporter.take();
        drop(state);
        reporter.into_iter().for_each(Reporter::give_up);
        self.changed.notify_waiters();
    }

    /// A worker's start has come to its end.
    pub(super) fn on_up(&self, generation: u32) {
        let mut state = self.state.lock();
        if state.generation == generation && state.phase == Phase::Starting {
            state.enter(Phase::Running);
        }
        drop(state);
        self.changed.notify_waiters();
    }

    pub(super) fn set_reporter(&self, generation: u32, reporter: Reporter) {
        let reporter = Arc::new(reporter);
        let mut state = self.state.lock();
        let old = if state.generation == generation {
            state.reporter.replace(reporter)
        } else {
            Some(reporter)
        };
        drop(state);
        old.into_iter().for_each(Reporter::give_up);
    }

    /// Asks its worker for its own report, if it has one; nothing if it owes an earlier answer.
    pub(super) fn ask(&self) -> Option<Option<oneshot::Receiver<Answer>>> {
        let reporter = self.state.lock().reporter.clone()?;
        Some(reporter.ask(&self.runtime))
    }

    /// Waits until `look` finds what it looks for.
    async fn until<T>(&self, look: impl Fn(&State) -> Option<T>) -> T {
        // Most who wait find it at once, and need not be told.
        let found = look(&self.state.lock());
        if let Some(found) = found {
            return found;
        }
        loop {
            let mut changed = std::pin::pin!(self.changed.notified());
            changed.as_mut().enable();
            let found = look(&self.state.lock());
            match found {
                Some(found) => return found,
                None => changed.await,
            }
        }
    }

    /// Waits until it is the present one, or never will be.
    pub(super) async fn begun(&self) -> bool {
        self.until(|state| match state.phase {
            Phase::Queued => None,
            Phase::Gone => Some(!matches!(state.ending, Some(Ending::Withdrawn))),
            _ => Some(true),
        })
        .await
    }

    /// Returns whether its worker is up, or never will be.
    pub(super) fn is_up(&self) -> Option<bool> {
        self.state.lock().is_up()
    }

    /// Waits until its worker is up, or it has left.
    pub(super) async fn up(&self) -> bool {
        self.until(State::is_up).await
    }

    /// Waits until the worker of a generation is gone.
    pub(super) async fn bounced(&self, generation: u32) {
        let is_over = |state: &State| {
            let is_live = matches!(state.phase, Phase::Starting | Phase::Running);
            (!is_live || state.generation != generation).then_some(())
        };
        self.until(is_over).await;
    }

    /// Waits until it has left.
    pub(super) async fn ended(&self) -> Ending {
        self.until(|state| state.ending.clone()).await
    }

    pub(super) fn report(&self) -> RunnerChild {
        let (now, state) = (Instant::now(), self.state.lock());
        let waits = state.until.map(|until| until.saturating_duration_since(now).as_secs_f64());
        let is_up = state.phase == Phase::Running;
        RunnerChild {
            state: state.shown(&self.policy, now),
            restart: self.spec.restart(),
            generation: state.generation,
            failures: state.failures,
            running_for: is_up.then(|| now.duration_since(state.since).as_secs_f64()),
            next_try_in: waits,
            error: state.error.as_deref().cloned(),
            report: None,
            reporter: None,
        }
    }

    /// Begins the next generation; nothing if it is to leave.
    fn next_generation(self: &Arc<Self>) -> Option<ChildContext> {
        let (stopper, stop) = Stop::pair();
        let mut state = self.state.lock();
        if state.is_doomed {
            return None;
        }
        state.enter(Phase::Starting);
        state.generation = state.generation.saturating_add(1);
        state.stopper = Some(stopper);
        state.told = None;
        state.is_bounced = false;
        self.is_gone.store(false, Ordering::Release);
        Some(ChildContext { stay: Arc::clone(self), generation: state.generation, stop })
    }

    /// Judges the end of its worker, and says what comes next.
    fn judge(&self, end: End, random: &Mutex<StdRng>) -> Next {
        // Before the lock: an error writes its own text.
        let seen = seen(&end);
        if let End::Outcome(Err(Exit::Fatal(error))) = end {
            return Next::Fatal(Exit::Fatal(error));
        }
        let (now, mut left, mut has_failed) = (Instant::now(), None, false);
        let mut state = self.state.lock();
        state.stopper = None;
        let reporter = state.reporter.take();
        let verdict = if state.is_doomed {
            Verdict::Leave
        } else if std::mem::take(&mut state.is_bounced) {
            Verdict::Bounce
        } else {
            verdict(self.spec.restart(), &end)
        };
        match verdict {
            Verdict::Leave => {
                // From here on its name is free as soon as it has left.
                state.is_doomed = true;
                left = Some(end);
            }
            Verdict::Bounce => {
                let delay = spread(&self.policy, random);
                state.rest(Phase::Delayed, after(now, delay));
            }
            Verdict::Failure => {
                has_failed = true;
                state.error = Some(Box::new(seen.clone()));
                state.fail(&self.policy, now, random);
            }
        }
        let (failures, until) = (state.failures, state.until);
        drop(state);
        self.changed.notify_waiters();
        reporter.into_iter().for_each(Reporter::give_up);
        if has_failed {
            let wait = until.map(|until| until.saturating_duration_since(now));
            tracing::warn!(
                worker = self.name.as_str(),
                error = seen.text,
                failures,
                ?wait,
                "a worker failed"
            );
        }
        left.map_or(Next::Again, |end| Next::Leave(Ending::of(end)))
    }

    /// Waits until the next worker may be started; says whether one is to be.
    async fn rested(&self) -> bool {
        loop {
            let mut changed = std::pin::pin!(self.changed.notified());
            changed.as_mut().enable();
            let at = {
                let state = self.state.lock();
                if state.is_doomed {
                    return false;
                }
                if state.is_bounced {
                    return true;
                }
                state.until
            };
            tokio::select! {
                biased;
                () = changed => {}
                () = until(at) => return true,
            }
        }
    }

    /// Nothing is left of its worker.
    fn on_gone(&self) {
        self.is_gone.store(true, Ordering::Release);
        self.changed.notify_waiters();
    }
}

impl fmt::Debug for Stay {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = self.state.lock();
        f.debug_struct("Stay").field("name", &self.name()).field("phase", &state.phase).finish()
    }
}
