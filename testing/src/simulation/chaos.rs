//! Puts the faults around the workers.

use std::collections::HashMap;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::task::{Context as TaskContext, Poll, Waker};
use std::time::Duration;

use crankcase_engine::{Context, Exit, Outcome, Step, Stop as Told, Wrap, Wrapped, WrappedInput};
use parking_lot::Mutex;
use tokio::time::{Sleep, sleep};

use super::faults::{Faults, Plan, Run, Start, Stop};
use super::judge::{Seen, join};
use super::record::Notes;

/// After how many steps of workers events are entered at the latest.
const STEPS: u32 = 64;

/// What all workers of a run have in common.
pub(super) struct Chaos {
    seed: u64,
    faults: Faults,
    spared: Vec<String>,
    notes: Notes,
    is_calm: AtomicBool,
    /// How many steps workers have taken.
    steps: AtomicU32,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    paths: HashMap<Arc<str>, Lives, foldhash::fast::FixedState>,
    /// Room for a path.
    path: String,
    /// Who is held up until the faults stop.
    held: Vec<Waker>,
}

/// The workers that one path has had.
struct Lives {
    path: Arc<str>,
    count: u64,
    /// The number of the one that lives, and its generation.
    live: Option<(u64, u32)>,
}

impl Chaos {
    pub(super) fn new(seed: u64, faults: Faults, spared: Vec<String>, notes: Notes) -> Arc<Self> {
        let (is_calm, steps) = (AtomicBool::new(false), AtomicU32::new(0));
        Arc::new(Self { seed, faults, spared, notes, is_calm, steps, state: Mutex::default() })
    }

    /// Lets no fault strike any more, and all go on that are held up.
    pub(super) fn calm(&self) {
        self.is_calm.store(true, Ordering::Relaxed);
        let held = std::mem::take(&mut self.state.lock().held);
        held.into_iter().for_each(Waker::wake);
    }

    /// Enters a new worker: returns its path, its number, and who else of its path lives.
    fn enter(&self, ctx: &Context, generation: u32) -> (Arc<str>, u64, Option<(u64, u32)>) {
        let State { paths, path, .. } = &mut *self.state.lock();
        join(path, ctx.engine(), Some(ctx.name()));
        if !paths.contains_key(path.as_str()) {
            let path: Arc<str> = path.as_str().into();
            paths.insert(Arc::clone(&path), Lives { path, count: 0, live: None });
        }
        let lives = paths.get_mut(path.as_str()).expect("it is there by now");
        lives.count += 1;
        let nth = lives.count;
        (Arc::clone(&lives.path), nth, lives.live.replace((nth, generation)))
    }

    /// A worker takes a step, and may make events.
    fn step(&self) {
        if self.steps.fetch_add(1, Ordering::Relaxed) % STEPS == STEPS - 1 {
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
        let generation = ctx.generation();
        let (path, nth, other) = self.0.enter(ctx, generation);
        if let Some((_, other)) = other {
            self.0.notes.seen(Seen::Twice { path: &path, other, generation });
        }
        self.0.notes.seen(Seen::Begun { path: &path, generation, inputs });
        let is_spared = self.0.spared.iter().any(|spared| **spared == *path);
        let plan = (!is_spared).then(|| self.0.faults.plan(self.0.seed, &path, nth));
        Box::new(Player {
            chaos: Arc::clone(&self.0),
            path,
            nth,
            plan,
            told: ctx.stop().clone(),
            polls: 0,
            yielded: [0; 2],
            is_parting: false,
            state: PlayerState::Free,
        })
    }
}

/// Plays one worker's faults.
struct Player {
    chaos: Arc<Chaos>,
    path: Arc<str>,
    nth: u64,
    plan: Option<Plan>,
    told: Told,
    polls: u32,
    yielded: [u32; 2],
    /// The fault of its stop has struck.
    is_parting: bool,
    state: PlayerState,
}

enum PlayerState {
    /// Nothing has struck yet that lasts.
    Free,
    /// It runs, and its fault strikes then.
    Armed(Pin<Box<Sleep>>),
    /// It is held up until then.
    Slow(Pin<Box<Sleep>>),
    /// It is held up until the faults stop.
    Held,
}

impl Wrapped for Player {
    fn before(&mut self, step: Step, cx: &mut TaskContext<'_>) -> Poll<Option<Outcome>> {
        self.chaos.step();
        if self.chaos.is_calm() {
            return Poll::Ready(None);
        }
        let Some(plan) = self.plan else { return Poll::Ready(None) };
        let place = usize::from(step == Step::Run);
        if self.yielded[place] < plan.yields[place] {
            self.yielded[place] += 1;
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        match &mut self.state {
            PlayerState::Held => return self.hold(cx),
            PlayerState::Slow(sleep) => match sleep.as_mut().poll(cx) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(()) => self.state = PlayerState::Free,
            },
            PlayerState::Free | PlayerState::Armed(_) => {}
        }
        if step != Step::Run {
            self.start(&plan, cx)
        } else if self.told.is_stopped() {
            self.stop(&plan, cx)
        } else {
            self.run(&plan, cx)
        }
    }
}

impl Player {
    fn start(&mut self, plan: &Plan, cx: &mut TaskContext<'_>) -> Poll<Option<Outcome>> {
        self.polls += 1;
        if self.polls != plan.start_at + 1 {
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
        if !matches!(self.state, PlayerState::Armed(_)) {
            self.state = PlayerState::Armed(Box::pin(sleep(after)));
        }
        if let PlayerState::Armed(sleep) = &mut self.state
            && sleep.as_mut().poll(cx).is_pending()
        {
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
        self.chaos.notes.fault(&self.path, text);
    }

    /// Panics without the message of a panic hook: it is wanted.
    fn panic(&self, text: &'static str) -> ! {
        self.strikes(text);
        std::panic::resume_unwind(Box::new("a fault of the simulation"))
    }

    fn hold(&mut self, cx: &TaskContext<'_>) -> Poll<Option<Outcome>> {
        self.state = PlayerState::Held;
        self.chaos.state.lock().held.push(cx.waker().clone());
        Poll::Pending
    }

    fn slow(&mut self, delay: Duration, cx: &mut TaskContext<'_>) -> Poll<Option<Outcome>> {
        let mut sleep = Box::pin(sleep(delay));
        let polled = sleep.as_mut().poll(cx);
        self.state = match polled {
            Poll::Pending => PlayerState::Slow(sleep),
            Poll::Ready(()) => PlayerState::Free,
        };
        polled.map(|()| None)
    }
}

impl Drop for Player {
    fn drop(&mut self) {
        let mut state = self.chaos.state.lock();
        if let Some(lives) = state.paths.get_mut(&self.path)
            && lives.live.is_some_and(|(nth, _)| nth == self.nth)
        {
            lives.live = None;
        }
    }
}
