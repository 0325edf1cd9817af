//! Slices: how long the loop works before it lets others run, and how long it lets them.

use std::time::Duration;

use tokio::time::Instant;

use super::EventLoop;
use crate::machine::{Scope, Step};
use crate::supervisor::inbox::{Inbox, Unread};
use crate::vocabulary::clock::stamp;

/// How long the loop works before it lets others run and looks at its messages again: not much
/// longer than it takes to start as many workers as the processor's cache holds, so that they are
/// polled, and their messages handled, while they are in it.
const SLICE: Duration = Duration::from_micros(100);
/// How many nested engines are started in a slice at most: each has many workers to start.
const NESTED: usize = 16;
/// How many turns others are given between two slices at most.
const TURNS: usize = 4;
/// How long these turns may take before there is no further one.
const PATIENCE: Duration = Duration::from_micros(500);
/// How many steps are taken between two looks at the clock.
pub(super) const STEPS: usize = 64;

impl EventLoop {
    pub(super) fn begin_slice(&mut self) {
        let now = Instant::now();
        self.slice_ends = now + SLICE;
        self.nested_started = 0;
        self.is_in_turn = true;
        self.now = stamp(now.duration_since(self.began));
    }

    pub(super) fn is_slice_over(&self) -> bool {
        Instant::now() >= self.slice_ends
    }

    /// Takes the machine's steps within a scope until there is none or the slice is over; returns
    /// whether there are more. Commands are never left for later.
    pub(super) fn carry_out(&mut self, scope: Scope) -> bool {
        let mut steps = 0;
        loop {
            match self.machine.step(scope) {
                Step::Idle => return false,
                Step::Worked => {}
                Step::Command(command) => self.execute(command),
            }
            steps += 1;
            let is_enough = self.nested_started >= NESTED;
            if (steps >= STEPS || is_enough) && !self.machine.has_commands() {
                steps = 0;
                if is_enough || self.is_slice_over() {
                    return true;
                }
            }
        }
    }
}

/// How many nested engines were started in a slice, and what was unread at its end.
pub(super) struct Started {
    engines: usize,
    told: usize,
    is_called: bool,
}

impl Started {
    pub(super) fn of(event_loop: &EventLoop) -> Self {
        let Unread { messages, calls } = &event_loop.unread;
        let engines = event_loop.nested_started;
        Self { engines, told: messages.len(), is_called: !calls.is_empty() }
    }
}

impl Inbox<EventLoop> {
    /// Lets the other tasks of this thread run, to see then what has come meanwhile.
    ///
    /// While fewer messages wait than nested engines were started in this slice, they are given another
    /// turn: they start their workers a few engines at a time then, in the processor's cache, and not
    /// all of them side by side. It ends after a few turns, and at once for who calls.
    pub(super) async fn let_others_run(&self, started: Started) {
        let Started { engines, told, is_called } = started;
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
