//! The machine's timers: one queue, cleaned when it is mostly stale.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::collections::binary_heap::PeekMut;
use std::pin::Pin;
use std::time::Duration;

use tokio::time::{Instant, Sleep, sleep_until};

use super::slot::Stamp;
use crate::machine::{Machine, NodeId, Token};

/// How many stale timers are borne before the queue is cleaned.
const SLACK: usize = 256;

pub(super) struct Timers {
    queue: BinaryHeap<Reverse<Timer>>,
    /// Orders timers that end at the same moment, so that they fire as they were armed.
    sequence: u64,
    began: Instant,
    sleep: Pin<Box<Sleep>>,
    /// When the sleep ends; none before it is first set, and after it has ended.
    sleeps_until: Option<Stamp>,
}

#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Timer {
    at: Stamp,
    sequence: u64,
    node: NodeId,
    token: Token,
}

impl Timers {
    pub(super) fn new(began: Instant) -> Self {
        Self {
            queue: BinaryHeap::new(),
            sequence: 0,
            began,
            sleep: Box::pin(sleep_until(began)),
            sleeps_until: None,
        }
    }

    /// Makes room for more at once.
    pub(super) fn reserve(&mut self, more: usize) {
        self.queue.reserve(more);
    }

    pub(super) fn arm(&mut self, machine: &Machine, at: Stamp, node: NodeId, token: Token) {
        self.clean(machine);
        self.sequence += 1;
        self.queue.push(Reverse(Timer { at, sequence: self.sequence, node, token }));
    }

    /// Forgets the stale timers if they are most of all, and at once if all are.
    fn clean(&mut self, machine: &Machine) {
        if machine.armed() == 0 {
            self.queue.clear();
        } else if self.queue.len() > 2 * machine.armed() + SLACK {
            self.queue.retain(|Reverse(timer)| machine.is_armed(timer.node, timer.token));
        }
    }

    /// Takes a timer whose time has come.
    pub(super) fn pop_due(&mut self, now: Stamp) -> Option<(NodeId, Token)> {
        let Reverse(first) = self.queue.peek()?;
        if first.at > now {
            return None;
        }
        self.queue.pop().map(|Reverse(timer)| (timer.node, timer.token))
    }

    /// Returns when the next armed timer ends, and forgets the stale ones before it: most workers
    /// are up, and most have ended, long before their deadlines.
    fn first(&mut self, machine: &Machine) -> Option<Stamp> {
        self.clean(machine);
        loop {
            let first = self.queue.peek_mut()?;
            if machine.is_armed(first.0.node, first.0.token) {
                return Some(first.0.at);
            }
            PeekMut::pop(first);
        }
    }

    /// Waits until an armed timer's time has come, or the deadline; for ever if there is neither. It
    /// may be over once too early.
    pub(super) async fn wait(&mut self, machine: &Machine, deadline: Option<Stamp>) {
        let first = self.first(machine);
        let Some(at) = first.into_iter().chain(deadline).min() else {
            return std::future::pending().await;
        };
        // One that ends too early is left alone: it wakes the loop once, and to set it anew for each
        // timer that is armed and soon met costs more.
        if self.sleeps_until.is_none_or(|until| at < until) {
            self.sleeps_until = Some(at);
            // A stamp is one more than the nanoseconds it stands for, and a sleep's are rounded up
            // to milliseconds.
            let after = Duration::from_nanos(at.saturating_sub(1));
            self.sleep.as_mut().reset(self.began + after);
        }
        self.sleep.as_mut().await;
        // An elapsed sleep must be reset before it is waited for again.
        self.sleeps_until = None;
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::machine::{Command, Step};
    use crate::policy::Policy;

    #[tokio::test(start_paused = true)]
    async fn a_timer_without_end_is_waited_for_without_end() {
        let machine = Machine::new(Arc::new(Policy::default()), 0);
        let mut timers = Timers::new(Instant::now());

        let is_over = tokio::select! {
            biased;
            () = timers.wait(&machine, Some(Stamp::MAX)) => true,
            () = tokio::task::yield_now() => false,
        };

        assert!(!is_over);
    }

    #[tokio::test(start_paused = true)]
    async fn a_deadline_that_was_met_wakes_nobody() {
        let mut machine = Machine::new(Arc::new(Policy::default()), 0);
        let mut timers = Timers::new(Instant::now());
        let node = machine.add();
        machine.install(node, &[], None);
        let mut started = None;
        loop {
            match machine.step() {
                Step::Idle => break,
                Step::Command(Command::Start(_, generation)) => started = Some(generation),
                Step::Command(Command::Arm(node, token, _)) => timers.arm(&machine, 1, node, token),
                Step::Command(_) | Step::Worked => {}
            }
        }
        assert_eq!(timers.first(&machine), Some(1), "the start has a deadline");

        machine.started(node, started.expect("it is started"));

        assert_eq!(timers.first(&machine), None);
        assert!(timers.queue.is_empty());
    }
}
