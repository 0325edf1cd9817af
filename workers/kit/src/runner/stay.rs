use std::collections::VecDeque;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crankcase_engine::{Backoff, Detail, Exit, Name, Panicked, Policy, Stop, Stopper, WorkerState};
use parking_lot::Mutex;
use rand::rngs::StdRng;
use tokio::runtime::Handle;
use tokio::sync::Notify;
use tokio::task::AbortHandle;
use tokio::time::{Instant, sleep, sleep_until};

use super::report::{RunnerChild, RunnerChildError};
use super::spec::{Body, ChildContext, ChildSpec, Restart};
use super::table::Shared;
use crate::child::{End, caught};

pub(super) type Reporter =
    Arc<dyn Fn() -> Pin<Box<dyn Future<Output = Detail> + Send>> + Send + Sync>;

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

struct State {
    phase: Phase,
    /// It is to leave, and starts nothing any more.
    is_doomed: bool,
    /// It is to be started again without being judged.
    is_bounced: bool,
    stopper: Option<Stopper>,
    told: Option<Instant>,
    generation: u32,
    failures: u32,
    /// When the last failures were, if there is an intensity.
    recent: VecDeque<Instant>,
    /// Since when it has been in its phase.
    since: Instant,
    until: Option<Instant>,
    error: Option<Box<RunnerChildError>>,
    reporter: Option<Reporter>,
    task: Option<AbortHandle>,
    ending: Option<Ending>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// It waits for the one before to leave.
    Queued,
    Starting,
    Running,
    Delayed,
    BackingOff,
    Spent,
    Gone,
}

/// What comes after the end of a worker.
enum Next {
    Again,
    Leave(Ending),
    /// Leave, and end the runner with this.
    Fatal(Exit),
}

impl Stay {
    pub(super) fn new(name: Name<()>, spec: ChildSpec, policy: Arc<Policy>) -> Self {
        let state = State {
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
            task: None,
            ending: None,
        };
        Self {
            name,
            spec,
            policy,
            runtime: Handle::current(),
            state: Mutex::new(state),
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
        let state = self.state.lock();
        state.task.as_ref().is_some_and(|task| Some(task.id()) == tokio::task::try_id())
    }

    /// Runs it in a task, as the present stay of its name.
    pub(super) fn begin(self: &Arc<Self>, shared: &Arc<Shared>) {
        self.state.lock().phase = Phase::Starting;
        self.changed.notify_waiters();
        let presence = Presence {
            shared: Arc::clone(shared),
            stay: Arc::clone(self),
            stop: None,
            has_left: false,
        };
        let task = self.runtime.spawn(presence.keep()).abort_handle();
        self.state.lock().task = Some(task.clone());
        if shared.has_ended() {
            task.abort();
        }
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
        drop(caught(|| drop(reporter)));
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
        let mut state = self.state.lock();
        let old = if state.generation == generation {
            state.reporter.replace(reporter)
        } else {
            Some(reporter)
        };
        drop(state);
        drop(old);
    }

    pub(super) fn reporter(&self) -> Option<Reporter> {
        self.state.lock().reporter.clone()
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

    /// Waits until its worker is up, or it has left.
    pub(super) async fn up(&self) -> bool {
        self.until(|state| match state.phase {
            Phase::Running if state.told.is_none() => Some(true),
            Phase::Gone => Some(false),
            _ => None,
        })
        .await
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
                state.rest(Phase::Delayed, now + delay);
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
        drop(caught(|| drop(reporter)));
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
            let until = {
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
                () = wait_until(until) => return true,
            }
        }
    }

    /// Nothing is left of its worker.
    fn on_gone(&self) {
        self.is_gone.store(true, Ordering::Release);
        self.changed.notify_waiters();
    }
}

async fn wait_until(until: Option<Instant>) {
    match until {
        Some(until) => sleep_until(until).await,
        None => std::future::pending().await,
    }
}

/// Returns the wait before a restart that is no failure, with the backoff's jitter.
fn spread(policy: &Policy, random: &Mutex<StdRng>) -> Duration {
    let delay = policy.bounce_delay;
    let even = Backoff { initial: delay, max: delay, ..policy.backoff.clone() };
    even.delay(1, &mut *random.lock())
}

enum Verdict {
    Leave,
    Bounce,
    Failure,
}

/// Says what the end of a worker that nobody had asked for leads to.
fn verdict(restart: Restart, end: &End) -> Verdict {
    match (end, restart) {
        (End::Outcome(Err(Exit::Uninstall)), _) | (_, Restart::Temporary) => Verdict::Leave,
        (End::Outcome(Err(Exit::Bounce)) | End::Dropped, _) => Verdict::Bounce,
        (End::Outcome(Ok(())), Restart::Transient) => Verdict::Leave,
        (End::Outcome(_), _) => Verdict::Failure,
    }
}

/// Returns what is to be said of an end.
fn seen(end: &End) -> RunnerChildError {
    let text = match end {
        End::Outcome(Ok(())) => Ok("it ended by itself, and is permanent".to_owned()),
        End::Outcome(Err(exit)) => caught(|| exit.to_string()),
        End::Dropped => Ok(String::new()),
    };
    let text = text.unwrap_or_else(|_| "its error cannot be written".to_owned());
    RunnerChildError { text, is_panic: matches!(end, End::Outcome(Err(exit)) if exit.is_panic()) }
}

impl Ending {
    fn of(end: End) -> Self {
        match end {
            End::Outcome(Ok(()) | Err(Exit::Bounce | Exit::Uninstall)) => Self::Well,
            End::Outcome(Err(exit)) => Self::Failed(Arc::new(exit)),
            End::Dropped => Self::Dropped,
        }
    }
}

impl State {
    fn enter(&mut self, phase: Phase) {
        self.phase = phase;
        self.since = Instant::now();
        self.until = None;
    }

    fn rest(&mut self, phase: Phase, until: Instant) {
        self.enter(phase);
        self.until = Some(until);
    }

    fn tell(&mut self) {
        if let Some(stopper) = &self.stopper {
            stopper.stop();
            self.told.get_or_insert_with(Instant::now);
        }
    }

    /// Counts a failure as an engine does.
    fn fail(&mut self, policy: &Policy, now: Instant, random: &Mutex<StdRng>) {
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
            self.rest(Phase::BackingOff, now + delay);
        }
    }

    fn shown(&self, policy: &Policy, now: Instant) -> WorkerState {
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

/// The present stay of a name, in its task. It leaves when this is dropped.
struct Presence {
    shared: Arc<Shared>,
    stay: Arc<Stay>,
    /// That of the present worker.
    stop: Option<Stop>,
    has_left: bool,
}

impl Presence {
    async fn keep(mut self) {
        let ending = loop {
            let Some(end) = self.live().await else { break Ending::Well };
            match self.stay.judge(end, self.shared.random()) {
                Next::Again => {}
                Next::Leave(ending) => break ending,
                Next::Fatal(exit) => {
                    let text = caught(|| exit.to_string()).unwrap_or_default();
                    self.shared.fail(exit);
                    break Ending::Failed(Arc::new(Exit::fatal(text)));
                }
            }
            if !self.stay.rested().await {
                break Ending::Well;
            }
        };
        self.has_left = true;
        self.shared.leave(&self.stay, ending);
    }

    /// Runs one worker until nothing is left of it; nothing if none is to run.
    async fn live(&mut self) -> Option<End> {
        let ctx = self.stay.next_generation()?;
        let stop = ctx.stop.clone();
        self.stop = Some(stop.clone());
        let policy = &self.stay.policy;
        let end = match caught(|| self.stay.spec.launch(ctx, policy.start_timeout)) {
            Err(exit) => End::Outcome(Err(exit)),
            Ok(mut body) => {
                let end = tokio::select! {
                    biased;
                    outcome = Caught(&mut body) => End::Outcome(outcome),
                    () = overdue(&stop, policy.grace) => End::Dropped,
                };
                match caught(|| drop(body)) {
                    Ok(()) => end,
                    Err(exit) => End::Outcome(Err(exit)),
                }
            }
        };
        let stay = Arc::clone(&self.stay);
        stop.once_gone(move || stay.on_gone());
        let stay = &self.stay;
        stay.until(|_| stay.is_gone.load(Ordering::Acquire).then_some(())).await;
        self.stop = None;
        Some(end)
    }
}

/// Waits until a worker that was told to stop has had its grace.
async fn overdue(stop: &Stop, grace: Duration) {
    stop.wait().await;
    sleep(grace).await;
}

impl Drop for Presence {
    fn drop(&mut self) {
        if self.has_left {
            return;
        }
        let (shared, stay) = (Arc::clone(&self.shared), Arc::clone(&self.stay));
        let leave = move || shared.leave(&stay, Ending::Dropped);
        match self.stop.take() {
            Some(stop) => stop.once_gone(leave),
            None => leave(),
        }
    }
}

/// Polls a worker's body and makes a failure of its panic.
struct Caught<'a>(&'a mut Body);

impl Future for Caught<'_> {
    type Output = crankcase_engine::Outcome;

    fn poll(
        mut self: Pin<&mut Self>,
        cx: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Self::Output> {
        match catch_unwind(AssertUnwindSafe(|| self.0.as_mut().poll(cx))) {
            Ok(poll) => poll,
            Err(payload) => {
                std::task::Poll::Ready(Err(Exit::failed(Panicked::from_payload(payload))))
            }
        }
    }
}

impl fmt::Debug for Stay {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = self.state.lock();
        f.debug_struct("Stay").field("name", &self.name()).field("phase", &state.phase).finish()
    }
}
