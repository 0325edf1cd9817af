//! Wakes the tasks that wait for a moment of the paused clock.

use std::collections::BTreeMap;
use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context as TaskContext, Waker};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::{Instant, Sleep, sleep_until};

/// The moments are multiples of this many milliseconds, except for those that come sooner.
///
/// It saves the runtime a step. The runtime keeps its timers in a wheel of slots. For the next four
/// seconds, each slot is as long as this. The paused clock first jumps to the beginning of the next
/// slot that is not empty, and then to the timers in it. A timer at the beginning of a slot takes
/// the first jump alone: a timer at 640 ms takes one jump, a timer at 650 ms takes a jump
/// to 640 ms and another one.
///
/// As a result, alarms share more moments, and more races are tried. The judge cannot always tell
/// which of two alarms was first, and judges those races less.
const STEP: u64 = 64;

/// The time to the next look for waiting tasks, if there are none.
const NEVER: Duration = Duration::from_secs(1 << 30);

/// Wakes each task that waits for a moment. The runtime has one timer for all of them: most waiting
/// tasks are gone before their moment, and a timer for each would cost more than the rest of the
/// task.
///
/// Invariants:
/// 1. The timer is set for the first moment that a task waits for.
/// 2. `rung` reaches a moment before any task is woken for it.
/// 3. A waker is removed when it is woken or its task gives up.
pub(super) struct Alarms {
    began: Instant,
    /// The moment up to which all were woken.
    rung: AtomicU64,
    state: Mutex<State>,
}

struct State {
    /// The waiting tasks by their moments; those of one moment in the order in which they came.
    waiting: BTreeMap<Alarm, Waker>,
    count: u64,
    sleep: Pin<Box<Sleep>>,
    /// The moment for which the timer is set.
    next: u64,
}

/// A moment that a task waits for, in milliseconds since the beginning, with the number of the
/// alarm.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Alarm {
    at: u64,
    nth: u64,
}

impl Alarms {
    /// Must be called on the runtime that has the clock, before the clock goes on.
    pub(super) fn new() -> Self {
        let began = Instant::now();
        let sleep = Box::pin(sleep_until(began + NEVER));
        let state = State { waiting: BTreeMap::new(), count: 0, sleep, next: u64::MAX };
        Self { began, rung: AtomicU64::new(0), state: Mutex::new(state) }
    }

    /// Wakes a task after this time, or a little sooner.
    pub(super) fn set(&self, after: Duration, waker: &Waker) -> Alarm {
        let now = millis(self.began.elapsed());
        let at = in_step(now, after);
        let mut state = self.state.lock();
        state.count += 1;
        let alarm = Alarm { at, nth: state.count };
        state.waiting.insert(alarm, waker.clone());
        if at < state.next {
            self.aim(&mut state, at);
        }
        alarm
    }

    /// Returns whether the moment of an alarm has come.
    pub(super) fn is_due(&self, alarm: Alarm) -> bool {
        alarm.at <= self.rung.load(Ordering::Relaxed)
    }

    /// Takes back an alarm whose moment has not come yet.
    pub(super) fn cancel(&self, alarm: Alarm) {
        let mut state = self.state.lock();
        if state.waiting.remove(&alarm).is_some() && alarm.at == state.next {
            let next = state.next();
            self.aim(&mut state, next);
        }
    }

    /// Does some work, and meanwhile wakes all tasks at their moments.
    pub(super) async fn during<T>(&self, work: impl Future<Output = T>) -> T {
        let mut work = pin!(work);
        let both = |cx: &mut TaskContext<'_>| {
            while self.state.lock().sleep.as_mut().poll(cx).is_ready() {
                self.wake();
            }
            work.as_mut().poll(cx)
        };
        poll_fn(both).await
    }

    fn wake(&self) {
        let now = millis(self.began.elapsed());
        self.rung.store(now, Ordering::Relaxed);
        let mut state = self.state.lock();
        while let Some(entry) = state.waiting.first_entry().filter(|entry| entry.key().at <= now) {
            entry.remove().wake();
        }
        let next = state.next();
        self.aim(&mut state, next);
    }

    fn aim(&self, state: &mut State, next: u64) {
        state.next = next;
        let at = match next {
            u64::MAX => Instant::now() + NEVER,
            next => self.began + Duration::from_millis(next),
        };
        state.sleep.as_mut().reset(at);
    }
}

impl State {
    fn next(&self) -> u64 {
        self.waiting.first_key_value().map_or(u64::MAX, |(alarm, _)| alarm.at)
    }
}

/// Returns a moment after this time, or a little sooner if the clock stops there anyway.
fn in_step(now: u64, after: Duration) -> u64 {
    let at = now.saturating_add(millis(after));
    let step = at - at % STEP;
    if step > now { step } else { at }
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests;
