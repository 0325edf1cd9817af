//! Slices: how long the loop works before it yields, and how long it then lets other tasks run.

use std::time::Duration;

use tokio::time::Instant;

use super::inbox::{Inbox, Unread};
use crate::vocabulary::clock::{Stamp, stamp};

/// How long the loop works before it lets other tasks run and looks at its messages again. This is
/// about the time to start as many workers as fit into the processor's cache. So these workers are
/// polled, and their messages handled, while they are still in the cache.
const SLICE: Duration = Duration::from_micros(100);
/// How many nested engines are started or told to stop in one slice at most: each has many workers
/// that then start or stop.
const NESTED: usize = 8;
/// How many times the loop's task yields between two slices at most.
const TURNS: usize = 8;
/// After this time the loop's task does not yield again.
const PATIENCE: Duration = Duration::from_micros(500);
/// How many steps are taken between two reads of the clock.
pub(super) const STEPS: usize = 64;

/// The time of the current slice, and how much was done in it.
pub(super) struct Pace {
    began: Instant,
    /// When the slice began.
    pub(super) now: Stamp,
    slice_ends: Instant,
    /// How many nested engines were started or told to stop in this slice.
    pub(super) nested_begun: usize,
    /// How many messages are handled before timers may fire.
    pub(super) ahead_of_timers: usize,
}

impl Pace {
    /// Returns the pace of an engine that began at this moment.
    pub(super) fn new(began: Instant) -> Self {
        Self { began, now: 1, slice_ends: began, nested_begun: 0, ahead_of_timers: 0 }
    }

    pub(super) fn begin_slice(&mut self) {
        let now = Instant::now();
        self.slice_ends = now + SLICE;
        self.nested_begun = 0;
        self.now = stamp(now.duration_since(self.began));
    }

    pub(super) fn is_slice_over(&self) -> bool {
        Instant::now() >= self.slice_ends
    }

    pub(super) fn has_enough_nested(&self) -> bool {
        self.nested_begun >= NESTED
    }
}

/// How many nested engines were started or told to stop in a slice, and what was unread at its end.
pub(super) struct Begun {
    engines: usize,
    told: usize,
    is_called: bool,
}

impl Begun {
    pub(super) fn of(pace: &Pace, unread: &Unread) -> Self {
        let Unread { messages, calls } = unread;
        let engines = pace.nested_begun;
        Self { engines, told: messages.len(), is_called: !calls.is_empty() }
    }
}

impl<L> Inbox<L> {
    /// Lets the other tasks of this thread run, so that new messages can arrive.
    ///
    /// Yields again while fewer messages wait than nested engines were started or told to stop in
    /// this slice. So a few nested engines at a time start or stop their workers, in the processor's
    /// cache, and not all of them side by side. Stops after a few yields, and at once if a call waits.
    pub(super) async fn let_others_run(&self, begun: Begun) {
        let Begun { engines, told, is_called } = begun;
        let began = Instant::now();
        for _ in 0..TURNS {
            tokio::task::yield_now().await;
            let (messages, calls) = self.count();
            let have_all_told = told + messages >= engines;
            if have_all_told || is_called || calls > 0 || began.elapsed() >= PATIENCE {
                break;
            }
        }
    }
}
