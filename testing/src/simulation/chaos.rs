//! Puts the faults around the workers.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, OnceLock};
use std::task::{Context as TaskContext, Poll, Waker};
use std::time::Duration;

use crankcase_engine::testing::{Wrap, WrapPoint, Wrapped, WrappedInput};
use crankcase_engine::{Context, Exit, Outcome, Stop as Told};
use parking_lot::Mutex;

use super::alarms::{Alarm, Alarms};
use super::faults::{Faults, Plan, Run, Start, Stop};
use super::judge::Need;
use super::record::{Begun, Notes};
use super::starts::SURE;

/// The most steps of workers before events are entered.
const STEPS: u32 = 64;

/// The state that all workers of a run share.
pub(super) struct Chaos {
    seed: u64,
    faults: Faults,
    /// Known once the engine is built, and before anything is installed.
    spared: OnceLock<Vec<String>>,
    notes: Notes,
    alarms: Arc<Alarms>,
    is_calm: AtomicBool,
    /// How many steps workers have taken.
    steps: AtomicU32,
    held: Mutex<Held>,
}

/// The workers that are held up until the faults stop, in the order in which they began.
#[derive(Default)]
struct Held {
    wakers: BTreeMap<u64, Waker>,
    count: u64,
}

impl Chaos {
    pub(super) fn new(seed: u64, faults: Faults, notes: Notes, alarms: Arc<Alarms>) -> Arc<Self> {
        let (is_calm, steps) = (AtomicBool::new(false), AtomicU32::new(0));
        let (spared, held) = (OnceLock::new(), Mutex::default());
        Arc::new(Self { seed, faults, spared, notes, alarms, is_calm, steps, held })
    }

    /// Lets no fault strike the workers with these paths.
    pub(super) fn spare(&self, paths: Vec<String>) {
        let spared = self.spared.set(paths);
        debug_assert!(spared.is_ok(), "it is said once in a run");
    }

    /// Stops all faults, and lets all workers go on that are held up.
    pub(super) fn calm(&self) {
        self.is_calm.store(true, Ordering::Relaxed);
        let held = std::mem::take(&mut self.held.lock().wakers);
        held.into_values().for_each(Waker::wake);
    }

    /// A worker takes a step, and may make events.
    fn step(&self) {
        // Most workers are on one thread. A step of a worker on another thread may be lost.
        let steps = self.steps.load(Ordering::Relaxed).wrapping_add(1);
        self.steps.store(steps, Ordering::Relaxed);
        if steps.is_multiple_of(STEPS) {
            self.notes.enter();
        }
    }

    fn is_calm(&self) -> bool {
        self.is_calm.load(Ordering::Relaxed)
    }
}

/// A newtype, because the trait is foreign and an `Arc` is needed in it.
pub(super) struct Around(pub(super) Arc<Chaos>);

impl Wrap for Around {
    fn wrap(&self, ctx: &Context, inputs: &[WrappedInput<'_>]) -> Box<dyn Wrapped> {
        let begun = self.0.notes.begun(ctx, inputs, Need::of);
        let is_spared =
            self.0.spared.get().is_some_and(|all| all.iter().any(|path| **path == *begun.path));
        let plan = (!is_spared).then(|| self.0.faults.plan(self.0.seed, &begun.path, begun.nth));
        Box::new(Player::new(&self.0, ctx, begun, plan))
    }

    fn wrap_carrier(&self, ctx: &Context, inputs: &[WrappedInput<'_>]) -> Box<dyn Wrapped> {
        let begun = self.0.notes.begun(ctx, inputs, Need::of_carrier);
        self.0.notes.is_carrier(&begun);
        Box::new(Player::new(&self.0, ctx, begun, None))
    }
}

/// Plays one worker's faults.
struct Player {
    chaos: Arc<Chaos>,
    begun: Begun,
    plan: Option<Plan>,
    told: Told,
    /// How often the wrapper was asked whether the start may go on.
    asked: u32,
    /// The start is apart from the run, as it is not for a closure.
    is_staged: bool,
    /// The start is over, or it does not matter whether it is.
    is_up: bool,
    yielded: [u32; 2],
    /// The fault of its stop has struck.
    is_parting: bool,
    state: PlayerState,
}

enum PlayerState {
    /// Nothing that lasts has struck yet.
    Free,
    /// The worker runs, and its fault strikes at this alarm.
    Armed(Alarm),
    /// The worker is held up until this alarm.
    Slow(Alarm),
    /// The worker is held up until the faults stop; the number is its place among such workers.
    Held(u64),
}

impl Wrapped for Player {
    fn before(&mut self, point: WrapPoint, cx: &mut TaskContext<'_>) -> Poll<Option<Outcome>> {
        self.chaos.step();
        if self.chaos.is_calm() {
            return Poll::Ready(None);
        }
        let Some(plan) = self.plan else { return Poll::Ready(None) };
        let place = usize::from(point == WrapPoint::Run);
        if self.yielded[place] < plan.yields[place] {
            self.yielded[place] += 1;
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        match self.state {
            PlayerState::Held(_) => return self.hold(cx),
            PlayerState::Slow(alarm) if !self.chaos.alarms.is_due(alarm) => return Poll::Pending,
            PlayerState::Slow(_) => self.state = PlayerState::Free,
            PlayerState::Free | PlayerState::Armed(_) => {}
        }
        if point == WrapPoint::Run && self.told.is_stopped() {
            return self.stop(&plan, cx);
        }
        if self.is_starting(point, &plan) {
            match self.start(&plan, cx) {
                Poll::Ready(None) if point == WrapPoint::Run => {}
                struck => return struck,
            }
        }
        match point {
            WrapPoint::Run => self.run(&plan, cx),
            WrapPoint::Begin | WrapPoint::Start => Poll::Ready(None),
        }
    }
}

impl Player {
    fn new(chaos: &Arc<Chaos>, ctx: &Context, begun: Begun, plan: Option<Plan>) -> Self {
        Self {
            chaos: Arc::clone(chaos),
            begun,
            plan,
            told: ctx.stop().clone(),
            asked: 0,
            is_staged: false,
            is_up: false,
            yielded: [0; 2],
            is_parting: false,
            state: PlayerState::Free,
        }
    }

    /// Whether the start is under way, as far as that matters.
    fn is_starting(&mut self, point: WrapPoint, plan: &Plan) -> bool {
        if point != WrapPoint::Run {
            self.is_staged |= point == WrapPoint::Start;
            return true;
        }
        if self.is_up {
            return false;
        }
        let is_coming = !self.is_staged && self.is_coming(plan);
        if !is_coming {
            self.is_up = true;
            if self.is_lesson(plan) {
                self.chaos.notes.learn_start(&self.begun, self.asked);
            }
        }
        is_coming
    }

    /// Whether a closure is not up yet.
    fn is_coming(&self, plan: &Plan) -> bool {
        // A closure is asked at its beginning and before its first poll. After that its events
        // tell.
        let is_polled = self.asked >= SURE;
        let is_pending = plan.start != Start::Well && self.asked <= self.start_at(plan);
        !is_polled
            || ((is_pending || self.is_lesson(plan)) && self.chaos.notes.is_starting(&self.begun))
    }

    /// Returns whether this start teaches how often a start is asked. A start that a fault strikes
    /// is asked another number of times.
    fn is_lesson(&self, plan: &Plan) -> bool {
        plan.start == Start::Well && self.begun.starts.are_new()
    }

    /// Returns how often the start is asked before its fault strikes. The number is below the least
    /// that was seen, or the worker might be up before it.
    fn start_at(&self, plan: &Plan) -> u32 {
        plan.start_at % self.begun.starts.asks()
    }

    fn start(&mut self, plan: &Plan, cx: &mut TaskContext<'_>) -> Poll<Option<Outcome>> {
        self.asked += 1;
        if self.asked != self.start_at(plan) + 1 {
            return Poll::Ready(None);
        }
        match plan.start {
            Start::Well => Poll::Ready(None),
            Start::Error => {
                self.strikes("fails in its start");
                Poll::Ready(Some(Err(Exit::failed("a fault of the simulation"))))
            }
            Start::Panic => self.panic("panics in its start"),
            Start::Hang => {
                self.strikes("hangs in its start");
                self.hold(cx)
            }
            Start::Slow(delay) => {
                self.strikes("is slow to start");
                self.slow(delay, cx)
            }
        }
    }

    fn run(&mut self, plan: &Plan, cx: &mut TaskContext<'_>) -> Poll<Option<Outcome>> {
        let Some((run, after)) = plan.run else { return Poll::Ready(None) };
        let PlayerState::Armed(alarm) = self.state else {
            self.state = PlayerState::Armed(self.chaos.alarms.set(after, cx.waker()));
            return Poll::Ready(None);
        };
        if !self.chaos.alarms.is_due(alarm) {
            return Poll::Ready(None);
        }
        match run {
            Run::Error => {
                self.strikes("fails");
                Poll::Ready(Some(Err(Exit::failed("a fault of the simulation"))))
            }
            Run::Panic => self.panic("panics"),
            Run::Bounce => {
                self.strikes("asks for a bounce");
                Poll::Ready(Some(Err(Exit::Bounce)))
            }
            Run::Hang => {
                self.strikes("hangs");
                self.hold(cx)
            }
        }
    }

    fn stop(&mut self, plan: &Plan, cx: &mut TaskContext<'_>) -> Poll<Option<Outcome>> {
        if std::mem::replace(&mut self.is_parting, true) {
            return Poll::Ready(None);
        }
        match plan.stop {
            Stop::Well => Poll::Ready(None),
            Stop::Slow(delay) => {
                self.strikes("is slow to stop");
                self.slow(delay, cx)
            }
            Stop::Error => {
                self.strikes("fails at its stop");
                Poll::Ready(Some(Err(Exit::failed("a fault of the simulation"))))
            }
            Stop::Ignored => {
                self.strikes("ignores its stop");
                self.hold(cx)
            }
        }
    }

    fn strikes(&self, text: &'static str) {
        self.chaos.notes.strikes(&self.begun, text);
    }

    /// Panics without a message of the panic hook, because the panic is wanted.
    fn panic(&self, text: &'static str) -> ! {
        self.strikes(text);
        std::panic::resume_unwind(Box::new("a fault of the simulation"))
    }

    fn hold(&mut self, cx: &TaskContext<'_>) -> Poll<Option<Outcome>> {
        let number = match self.state {
            PlayerState::Held(number) => number,
            _ => {
                self.disarm();
                let mut held = self.chaos.held.lock();
                held.count += 1;
                held.count
            }
        };
        self.state = PlayerState::Held(number);
        let before = self.chaos.held.lock().wakers.insert(number, cx.waker().clone());
        drop(before);
        Poll::Pending
    }

    fn slow(&mut self, delay: Duration, cx: &TaskContext<'_>) -> Poll<Option<Outcome>> {
        // The alarm of its fault is taken back: that fault will not strike any more.
        self.disarm();
        self.state = PlayerState::Slow(self.chaos.alarms.set(delay, cx.waker()));
        Poll::Pending
    }

    fn disarm(&self) {
        match self.state {
            PlayerState::Free => {}
            PlayerState::Armed(alarm) | PlayerState::Slow(alarm) => self.chaos.alarms.cancel(alarm),
            PlayerState::Held(number) => {
                // Dropped without the lock, because it may be the last handle of its task.
                let waker = self.chaos.held.lock().wakers.remove(&number);
                drop(waker);
            }
        }
    }
}

impl Drop for Player {
    fn drop(&mut self) {
        self.disarm();
        self.chaos.notes.gone(&self.begun);
    }
}
