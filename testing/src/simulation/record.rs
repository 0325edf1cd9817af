//! The record of a run: all that happens, in its order, is entered into the trace and judged at
//! once.

use std::borrow::Cow;
use std::fmt;
use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Poll, Waker};
use std::time::{Duration, SystemTime};

use crankcase_engine::testing::WrappedInput;
use crankcase_engine::{Context, Event, Events, Notice, Policy};
use parking_lot::Mutex;
use tokio::time::Instant;

use super::judge::{Judge, Judged, Need, Phase};
use super::met::Met;
use super::starts::Starts;
use super::trace::{About, Number, Trace, What};

/// Writes into the trace of a run; made by [`Setup::notes`](super::Setup::notes).
///
/// Give it to workers, so that the trace of a failure shows their work.
#[derive(Clone)]
pub struct Notes {
    record: Arc<Mutex<Record>>,
    began: Instant,
}

struct Record {
    written: Written,
    /// Taken out while someone looks at it.
    judge: Option<Box<Judge>>,
    source: Option<Source>,
    /// The workers that each path has had, by its seat.
    lives: Vec<Lives>,
    /// Set if no fault strikes, not yet or not any more.
    is_calm: bool,
    /// The first finding, and the task that waits for it.
    found: Option<String>,
    waiter: Option<Waker>,
    /// The most events of a run.
    most_events: u64,
}

/// The trace, with the numbers that paths have in it.
struct Written {
    trace: Trace,
    /// The paths' numbers, by their seats.
    numbers: Vec<Number>,
}

/// The workers that one path has had, as its tasks report.
#[derive(Clone, Copy, Default)]
struct Lives {
    count: u64,
    /// The number of the live worker, and its generation.
    live: Option<(u64, u32)>,
    starts: Starts,
}

/// A worker that has begun: its path and seat, and its number among the workers of the path.
pub(super) struct Begun {
    pub(super) path: About,
    seat: usize,
    pub(super) nth: u64,
    pub(super) starts: Starts,
}

/// The engine's events.
struct Source {
    events: Events,
    /// The wall clock when the engine began.
    wall: SystemTime,
    /// The time of the last event, by the wall clock and since the beginning: many events have the
    /// same.
    last: (SystemTime, Duration),
}

impl Source {
    /// Returns the time from the beginning to an event.
    fn since(&mut self, at: SystemTime) -> Duration {
        if self.last.0 != at {
            self.last = (at, at.duration_since(self.wall).unwrap_or_default());
        }
        self.last.1
    }
}

impl Record {
    /// Enters the new events.
    fn catch_up(&mut self) {
        let (Some(source), Some(judge)) = (&mut self.source, &mut self.judge) else { return };
        while let Some(notice) = source.events.try_next() {
            let judged = match notice {
                Notice::Event(event) => {
                    let at = source.since(event.at.0);
                    let judged = self.written.enter(judge, at, event);
                    judged.and_then(|()| within(judge.count, self.most_events))
                }
                Notice::Missed(missed) => Err(format!("{missed} events were missed")),
            };
            if let Err(found) = judged {
                find(&mut self.found, &mut self.waiter, found);
            }
        }
    }
}

/// Keeps the first finding, and wakes the task that waits for it.
fn find(first: &mut Option<String>, waiter: &mut Option<Waker>, found: String) {
    first.get_or_insert(found);
    if let Some(waiter) = waiter.take() {
        waiter.wake();
    }
}

impl Written {
    fn new() -> Self {
        Self { trace: Trace::new(), numbers: Vec::new() }
    }

    /// Judges an event, and enters it into the trace.
    fn enter(&mut self, judge: &mut Judge, at: Duration, event: Event) -> Judged {
        let worker = event.worker().map(|name| judge.index_of(event.engine(), name));
        let judged = judge.event(at, event.engine(), worker, &event.kind);
        let about = match worker {
            Some(seat) => self.number_at(seat, judge),
            None => self.trace.number_of(&About::new(&event.path())),
        };
        self.trace.push(at, Some(about), What::Event(event.kind));
        for (seat, users) in std::mem::take(&mut judge.closing) {
            let about = self.number_at(seat, judge);
            let users = users.into_iter().map(|user| self.number_at(user, judge)).collect();
            self.trace.push(at, Some(about), What::Closing(users));
        }
        judged
    }

    /// Returns the number that a seat's path has in the trace.
    fn number_at(&mut self, seat: usize, judge: &Judge) -> Number {
        for seat in self.numbers.len()..=seat {
            self.numbers.push(self.trace.number_of(judge.path(seat)));
        }
        self.numbers[seat]
    }
}

fn within(count: u64, most: u64) -> Judged {
    if count <= most {
        return Ok(());
    }
    Err(format!("there were more than {most} events; is there a wait of zero?"))
}

impl Notes {
    pub(super) fn new() -> Self {
        let record = Record {
            written: Written::new(),
            judge: Some(Box::default()),
            source: None,
            lives: Vec::new(),
            is_calm: false,
            found: None,
            waiter: None,
            most_events: u64::MAX,
        };
        Self { record: Arc::new(Mutex::new(record)), began: Instant::now() }
    }

    /// Follows an engine. `wall` is the wall clock at its beginning.
    pub(super) fn follow(&self, events: Events, wall: SystemTime) {
        self.record.lock().source = Some(Source { events, wall, last: (wall, Duration::ZERO) });
    }

    /// Sets how many events there may be.
    pub(super) fn allow(&self, most_events: u64) {
        self.record.lock().most_events = most_events;
    }

    /// Waits for a finding. Only one task waits at a time.
    ///
    /// Cancel safe: a finding is not forgotten.
    pub(super) fn is_broken(&self) -> impl Future<Output = ()> {
        poll_fn(|cx| {
            let Record { found, waiter, .. } = &mut *self.record.lock();
            if found.is_some() {
                return Poll::Ready(());
            }
            if waiter.as_ref().is_none_or(|waiter| !waiter.will_wake(cx.waker())) {
                *waiter = Some(cx.waker().clone());
            }
            Poll::Pending
        })
    }

    /// Returns whether no fault strikes: the faults have stopped, or the run has none. Anything
    /// that fails by itself, such as a stub of the simulation's own, should not fail then.
    pub fn is_calm(&self) -> bool {
        self.record.lock().is_calm
    }

    pub(super) fn calm(&self) {
        self.record.lock().is_calm = true;
    }

    /// Writes a line.
    pub fn note(&self, line: impl Into<String>) {
        self.push(|_| None, What::Note(line.into()));
    }

    /// Writes that a fault strikes this path.
    pub(super) fn fault(&self, path: &str, text: Cow<'static, str>) {
        let number_of = |written: &mut Written| Some(written.trace.number_of(&About::new(path)));
        self.push(number_of, What::Fault(text));
    }

    /// Writes that a fault strikes a worker.
    pub(super) fn strikes(&self, begun: &Begun, text: &'static str) {
        let number = |Written { trace, numbers }: &mut Written| {
            let known = numbers.get(begun.seat).copied();
            Some(known.unwrap_or_else(|| trace.number_of(&begun.path)))
        };
        self.push(number, What::Fault(text.into()));
    }

    /// Enters something after all earlier events.
    fn push(&self, about: impl FnOnce(&mut Written) -> Option<Number>, what: What) {
        let at = self.began.elapsed();
        let mut record = self.record.lock();
        record.catch_up();
        let about = about(&mut record.written);
        record.written.trace.push(at, about, what);
    }

    /// Enters that a worker's start is about to be called, after the events that have led to it.
    pub(super) fn begun(
        &self,
        ctx: &Context,
        inputs: &[WrappedInput<'_>],
        need_of: fn(&WrappedInput<'_>) -> Need,
    ) -> Begun {
        let mut record = self.record.lock();
        record.catch_up();
        let Record { written, judge, lives, found: first, waiter, .. } = &mut *record;
        let judge = judge.as_mut().expect("nobody looks while a worker begins");
        let (seat, generation) = (judge.index_of(ctx.engine(), ctx.name()), ctx.generation());
        if lives.len() <= seat {
            lives.resize(seat + 1, Lives::default());
        }
        lives[seat].count += 1;
        let path = judge.path(seat).clone();
        written.number_at(seat, judge);
        let Lives { count: nth, starts, .. } = lives[seat];
        let begun = Begun { path, seat, nth, starts };
        let judged = match lives[seat].live.replace((begun.nth, generation)) {
            None => {
                let needs = inputs.iter().map(|input| (input.name, need_of(input)));
                judge.begun(seat, generation, needs)
            }
            Some((_, other)) => Err(format!(
                "P1: {} has two workers at once: generation {generation} begins while generation \
                 {other} lives",
                begun.path
            )),
        };
        if let Err(found) = judged {
            find(first, waiter, found);
        }
        begun
    }

    /// Enters that a worker passes a value over a border.
    pub(super) fn is_carrier(&self, begun: &Begun) {
        if let Some(judge) = &mut self.record.lock().judge {
            judge.seats[begun.seat].is_carrier = true;
        }
    }

    /// Returns whether a worker is not up yet.
    pub(super) fn is_starting(&self, begun: &Begun) -> bool {
        let mut record = self.record.lock();
        record.catch_up();
        let seat = record.judge.as_ref().map(|judge| &judge.seats[begun.seat]);
        seat.is_some_and(|seat| seat.phase == Phase::Starting)
    }

    /// Enters how often a worker was asked during its start.
    pub(super) fn learn_start(&self, begun: &Begun, asks: u32) {
        self.record.lock().lives[begun.seat].starts.learn(asks);
    }

    /// Enters that a worker's future is gone.
    pub(super) fn gone(&self, begun: &Begun) {
        let lives = &mut self.record.lock().lives[begun.seat];
        if lives.live.is_some_and(|(nth, _)| nth == begun.nth) {
            lives.live = None;
        }
    }

    /// Enters the new events.
    pub(super) fn enter(&self) {
        self.record.lock().catch_up();
    }

    /// Enters the new events; returns the finding up to now.
    pub(super) fn catch_up(&self) -> Judged {
        let mut record = self.record.lock();
        record.catch_up();
        match &record.found {
            None => Ok(()),
            Some(found) => Err(found.clone()),
        }
    }

    /// Looks at the judge.
    pub(super) fn look<T>(&self, look: impl FnOnce(&Judge) -> T) -> T {
        self.with(|judge| look(judge))
    }

    /// Takes the judge out while `work` looks at it, so that `work` may write notes. If `work`
    /// panics, the judge stays out: the run is over then, and only its trace is still used.
    fn with<T>(&self, work: impl FnOnce(&mut Judge) -> T) -> T {
        let taken = self.record.lock().judge.take();
        let mut judge = taken.expect("nobody looks at the judge while another one does");
        let done = work(&mut judge);
        self.record.lock().judge = Some(judge);
        done
    }

    /// Sets the policies by which waits are judged.
    pub(super) fn judge_waits(&self, policies: Vec<(String, Policy)>) {
        self.with(|judge| judge.policies.extend(policies));
    }

    /// Notes that the clock has just jumped.
    pub(super) fn jumped(&self) {
        let to = self.began.elapsed();
        self.enter();
        self.with(|judge| judge.jumped(to));
    }

    /// Notes that the engine is at rest, and will be killed next.
    pub(super) fn is_at_rest(&self) {
        self.enter();
        self.with(|judge| judge.is_killed_at_rest = true);
    }

    /// Counts a preview that was compared with the judge's knowledge.
    pub(super) fn judged_a_preview(&self) {
        self.record.lock().written.trace.tally.previews += 1;
    }

    /// Returns the time since the beginning.
    pub(super) fn elapsed(&self) -> Duration {
        self.began.elapsed()
    }

    /// Leaves in the trace the paths that were met.
    pub(super) fn leave(&self, met: Met) {
        self.record.lock().written.trace.met = met;
    }

    /// Takes the whole trace.
    pub(super) fn take_trace(&self) -> Trace {
        let mut record = self.record.lock();
        // Later entries go into a trace that begins without paths.
        std::mem::replace(&mut record.written, Written::new()).trace
    }
}

impl fmt::Debug for Notes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Notes").finish_non_exhaustive()
    }
}
