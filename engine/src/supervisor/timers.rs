//! The timers that the machine arms. Stale ones are removed when they are the majority.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::machine::{Machine, NodeId, Token};
use crate::vocabulary::clock::Stamp;

/// How many stale timers are always allowed before the queue is cleaned.
const SLACK: usize = 256;

#[derive(Default)]
pub(super) struct Timers {
    queue: BinaryHeap<Reverse<Timer>>,
    /// Orders timers that end at the same moment: they fire in the order in which they were armed.
    sequence: u64,
    /// Until when the loop's task sleeps; none before its first sleep, and after it has woken.
    sleeps_until: Option<Stamp>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Timer {
    at: Stamp,
    sequence: u64,
    node: NodeId,
    token: Token,
}

impl Timers {
    /// Makes room for this many more timers.
    pub(super) fn reserve(&mut self, more: usize) {
        self.queue.reserve(more);
    }

    pub(super) fn arm(&mut self, machine: &Machine, at: Stamp, node: NodeId, token: Token) {
        self.clean(machine);
        self.sequence += 1;
        self.queue.push(Reverse(Timer { at, sequence: self.sequence, node, token }));
    }

    /// Removes the stale timers if they are the majority; clears the queue if all are stale.
    fn clean(&mut self, machine: &Machine) {
        if machine.armed() == 0 {
            self.queue.clear();
        } else if self.queue.len() > 2 * machine.armed() + SLACK {
            self.queue.retain(|Reverse(timer)| machine.is_armed(timer.node, timer.token));
        }
    }

    /// Takes a timer that is due.
    pub(super) fn pop_due(&mut self, now: Stamp) -> Option<(NodeId, Token)> {
        let Reverse(first) = self.queue.peek().filter(|Reverse(first)| first.at <= now)?;
        let due = (first.node, first.token);
        self.queue.pop();
        Some(due)
    }

    /// Whether a timer is due; it may be stale.
    pub(super) fn is_due(&self, now: Stamp) -> bool {
        self.queue.peek().is_some_and(|Reverse(first)| first.at <= now)
    }

    /// Returns when the next armed timer ends, and removes the stale timers before it. Most timers
    /// are stale long before they end: their workers are up, or have ended.
    fn first(&mut self, machine: &Machine) -> Option<Stamp> {
        self.clean(machine);
        loop {
            let Reverse(first) = self.queue.peek()?;
            if machine.is_armed(first.node, first.token) {
                return Some(first.at);
            }
            self.queue.pop();
        }
    }

    /// Returns until when the loop's task must sleep if its current sleep ends too late: until the
    /// next armed timer ends, or until the deadline.
    ///
    /// A sleep that ends too early is not changed. It wakes the task once; a reset for each
    /// short-lived timer costs more.
    pub(super) fn next_sleep(
        &mut self,
        machine: &Machine,
        deadline: Option<Stamp>,
    ) -> Option<Stamp> {
        self.clean(machine);
        let sleeps_until = self.sleeps_until;
        let is_sooner = |at: &Stamp| sleeps_until.is_none_or(|until| *at < until);
        // Most timers, armed or stale, end later than the sleep.
        let may_be_sooner = self.queue.peek().is_some_and(|Reverse(first)| is_sooner(&first.at));
        let first = if may_be_sooner { self.first(machine) } else { None };
        first.into_iter().chain(deadline).min().filter(is_sooner)
    }

    /// Whether the sleep of the loop's task was to end before this moment.
    pub(super) fn is_sleep_over(&self, now: Stamp) -> bool {
        self.sleeps_until.is_some_and(|until| until < now)
    }

    /// Records that the loop's task sleeps until this moment.
    pub(super) fn sleep_until(&mut self, at: Stamp) {
        self.sleeps_until = Some(at);
    }

    /// Records that the loop's task has woken.
    pub(super) fn wake_up(&mut self) {
        self.sleeps_until = None;
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::machine::{Command, Scope, Step};
    use crate::vocabulary::policy::Policy;

    #[test]
    fn timers_come_by_their_times_and_as_they_were_armed() {
        let mut machine = Machine::new(Arc::new(Policy::default()), 0);
        // Of a start that is never over, so that no timer is stale.
        let node = machine.add();
        machine.install(node, &[], None);
        while machine.step(Scope::All) != Step::Idle {}
        let mut timers = Timers::default();

        for (token, at) in (0..).zip([5, 7, 7, 6, 1, 7, 9, 6, 9, 2]) {
            timers.arm(&machine, at, node, token);
        }
        let come: Vec<_> = std::iter::from_fn(|| timers.pop_due(7)).collect();

        assert_eq!(come, [4, 9, 0, 3, 7, 1, 2, 5].map(|token| (node, token)));
        assert!(!timers.is_due(8) && timers.is_due(9));
    }

    #[test]
    fn a_sleep_is_set_anew_only_if_it_is_to_end_sooner() {
        let machine = Machine::new(Arc::new(Policy::default()), 0);
        let mut timers = Timers::default();
        assert_eq!(timers.next_sleep(&machine, None), None);
        assert_eq!(timers.next_sleep(&machine, Some(7)), Some(7));

        timers.sleep_until(7);

        assert_eq!(timers.next_sleep(&machine, Some(7)), None);
        assert_eq!(timers.next_sleep(&machine, Some(8)), None);
        assert_eq!(timers.next_sleep(&machine, Some(6)), Some(6));
        timers.wake_up();
        assert_eq!(timers.next_sleep(&machine, Some(8)), Some(8));
    }

    #[test]
    fn a_deadline_that_was_met_wakes_nobody() {
        let mut machine = Machine::new(Arc::new(Policy::default()), 0);
        let mut timers = Timers::default();
        let node = machine.add();
        machine.install(node, &[], None);
        let mut started = None;
        loop {
            match machine.step(Scope::All) {
                Step::Idle => break,
                Step::Command(Command::Start(_, generation)) => started = Some(generation),
                Step::Command(Command::Arm(node, token, _)) => timers.arm(&machine, 1, node, token),
                Step::Command(_) | Step::Worked => {}
            }
        }
        assert_eq!(timers.first(&machine), Some(1), "the start has a deadline");

        machine.started(node, started.expect("it is started"));

        assert_eq!(timers.first(&machine), None);
        assert_eq!(timers.queue.len(), 0);
    }
}
