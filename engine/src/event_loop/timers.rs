//! The machine's timers, cleaned when they are mostly stale.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use crate::clock::Stamp;
use crate::machine::{Machine, NodeId, Token};

/// How many stale timers are borne before the queue is cleaned.
const SLACK: usize = 256;

#[derive(Default)]
pub(super) struct Timers {
    queue: Queue,
    /// Orders timers that end at the same moment, so that they fire as they were armed.
    sequence: u64,
    /// Until when the loop's task sleeps; none before it first does, and once it has woken.
    sleeps_until: Option<Stamp>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Timer {
    at: Stamp,
    sequence: u64,
    node: NodeId,
    token: Token,
}

/// Timers, the first one first.
#[derive(Default)]
struct Queue {
    /// Those that ended after all others of these when they came, and so are in order: most are
    /// deadlines, which are equally long.
    in_order: VecDeque<Timer>,
    /// All others.
    others: BinaryHeap<Reverse<Timer>>,
}

impl Queue {
    fn len(&self) -> usize {
        self.in_order.len() + self.others.len()
    }

    fn push(&mut self, timer: Timer) {
        if self.in_order.back().is_none_or(|last| *last <= timer) {
            self.in_order.push_back(timer);
        } else {
            self.others.push(Reverse(timer));
        }
    }

    /// Returns when the first one ends.
    fn first_at(&self) -> Option<Stamp> {
        let other = self.others.peek().map(|Reverse(timer)| timer.at);
        self.in_order.front().map(|timer| timer.at).into_iter().chain(other).min()
    }

    fn first(&self) -> Option<Timer> {
        let other = self.others.peek().map(|Reverse(timer)| timer);
        self.in_order.front().into_iter().chain(other).min().copied()
    }

    /// Takes the first one out, which this is.
    fn take(&mut self, first: Timer) {
        if self.in_order.front() == Some(&first) {
            self.in_order.pop_front();
        } else {
            self.others.pop();
        }
    }

    fn retain(&mut self, is_kept: impl Fn(&Timer) -> bool) {
        self.in_order.retain(&is_kept);
        self.others.retain(|Reverse(timer)| is_kept(timer));
    }

    fn clear(&mut self) {
        self.in_order.clear();
        self.others.clear();
    }
}

impl Timers {
    /// Makes room for more at once.
    pub(super) fn reserve(&mut self, more: usize) {
        self.queue.in_order.reserve(more);
    }

    pub(super) fn arm(&mut self, machine: &Machine, at: Stamp, node: NodeId, token: Token) {
        self.clean(machine);
        self.sequence += 1;
        self.queue.push(Timer { at, sequence: self.sequence, node, token });
    }

    /// Forgets the stale timers if they are most of all, and at once if all are.
    fn clean(&mut self, machine: &Machine) {
        if machine.armed() == 0 {
            self.queue.clear();
        } else if self.queue.len() > 2 * machine.armed() + SLACK {
            self.queue.retain(|timer| machine.is_armed(timer.node, timer.token));
        }
    }

    /// Takes a timer whose time has come.
    pub(super) fn pop_due(&mut self, now: Stamp) -> Option<(NodeId, Token)> {
        let first = self.queue.first().filter(|first| first.at <= now)?;
        self.queue.take(first);
        Some((first.node, first.token))
    }

    /// Whether there is a timer whose time has come; it may be stale.
    pub(super) fn is_due(&self, now: Stamp) -> bool {
        self.queue.first_at().is_some_and(|at| at <= now)
    }

    /// Returns when the next armed timer ends, and forgets the stale ones before it: most workers
    /// are up, and most have ended, long before their deadlines.
    fn first(&mut self, machine: &Machine) -> Option<Stamp> {
        self.clean(machine);
        loop {
            let first = self.queue.first()?;
            if machine.is_armed(first.node, first.token) {
                return Some(first.at);
            }
            self.queue.take(first);
        }
    }

    /// Returns until when the loop's task is to sleep, if it does not sleep short enough: until an
    /// armed timer's time has come, or the deadline.
    ///
    /// A sleep that ends too early is left alone: it wakes the task once, and to set it anew for each
    /// timer that is armed and soon met costs more.
    pub(super) fn next_sleep(
        &mut self,
        machine: &Machine,
        deadline: Option<Stamp>,
    ) -> Option<Stamp> {
        self.clean(machine);
        let sleeps_until = self.sleeps_until;
        let is_sooner = |at: &Stamp| sleeps_until.is_none_or(|until| *at < until);
        // Most timers end later than the sleep does, armed or not.
        let may_be_sooner = self.queue.first_at().as_ref().is_some_and(is_sooner);
        let first = if may_be_sooner { self.first(machine) } else { None };
        first.into_iter().chain(deadline).min().filter(is_sooner)
    }

    /// Remembers that the loop's task sleeps until then.
    pub(super) fn sleep_until(&mut self, at: Stamp) {
        self.sleeps_until = Some(at);
    }

    /// Remembers that the loop's task has slept.
    pub(super) fn wake_up(&mut self) {
        self.sleeps_until = None;
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::sync::Arc;

    use proptest::prelude::*;

    use super::*;
    use crate::machine::{Command, Scope, Step};
    use crate::policy::Policy;

    #[test]
    fn timers_come_by_their_times_and_as_they_were_armed() {
        let (mut machine, mut queue) =
            (Machine::new(Arc::new(Policy::default()), 0), Queue::default());
        let node = machine.add();
        let times = [5, 7, 7, 6, 1, 7, 9, 6, 9, 2];

        for (sequence, at) in (0..).zip(times) {
            queue.push(Timer { at, sequence, node, token: Token::default() });
        }
        queue.retain(|timer| timer.sequence != 2);
        let mut come = Vec::new();
        while let Some(first) = queue.first() {
            queue.take(first);
            come.push((first.at, first.sequence));
        }

        let expected = [(1, 4), (2, 9), (5, 0), (6, 3), (6, 7), (7, 1), (7, 5), (9, 6), (9, 8)];
        assert_eq!(come, expected);
        assert_eq!(queue.len(), 0);
    }

    proptest! {
        #[test]
        fn timers_that_come_and_go_at_random_come_in_order(
            steps in prop::collection::vec((0_u64..20, 0..4), 1..200),
        ) {
            let mut machine = Machine::new(Arc::new(Policy::default()), 0);
            let (node, token) = (machine.add(), Token::default());
            let (mut queue, mut expected) = (Queue::default(), BTreeSet::new());
            for (sequence, (at, step)) in (0..).zip(steps) {
                match step {
                    0 => {
                        let first = queue.first();
                        prop_assert_eq!(first, expected.pop_first());
                        first.into_iter().for_each(|first| queue.take(first));
                    }
                    1 => {
                        queue.retain(|timer| timer.at != at);
                        expected.retain(|timer: &Timer| timer.at != at);
                    }
                    _ => {
                        let timer = Timer { at, sequence, node, token };
                        queue.push(timer);
                        expected.insert(timer);
                    }
                }
                prop_assert_eq!(queue.len(), expected.len());
            }
        }
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
