//! The visits that have asked for an action and wait for the answer, in groups.

use std::collections::{BTreeMap, VecDeque};

use super::graph::Class;
use super::interface::Ticket;

/// The open groups.
///
/// A group is open from its first question until its answer is taken. It is answered as soon as no
/// more resources of its class are awaited, and only one pass awaits any.
#[derive(Debug, Default)]
pub(super) struct Groups {
    /// How many resources of a class are awaited.
    awaited: BTreeMap<Class, usize>,
    open: BTreeMap<Group, Vec<Ticket>>,
    /// The open groups that can be answered, in this order.
    complete: VecDeque<Group>,
}

/// The visits that may share an action.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Group {
    Shared { class: Class, key: u64 },
    Alone(Ticket),
}

impl Groups {
    /// Notes that groups of a class have to wait for one more resource.
    pub(super) fn expect(&mut self, class: Class) {
        *self.awaited.entry(class).or_default() += 1;
    }

    /// Adds a visit that has asked to its group.
    pub(super) fn join(&mut self, ticket: Ticket, group: Group) {
        let tickets = self.open.entry(group).or_default();
        tickets.push(ticket);
        let waits =
            matches!(group, Group::Shared { class, .. } if self.awaited.contains_key(&class));
        if tickets.len() == 1 && !waits {
            self.complete.push_back(group);
        }
    }

    /// Notes that the groups of a class wait for one resource less.
    pub(super) fn leave(&mut self, class: Class) {
        let Some(awaited) = self.awaited.get_mut(&class) else { return };
        *awaited -= 1;
        if *awaited == 0 {
            self.awaited.remove(&class);
            let [first, last] = [0, u64::MAX].map(|key| Group::Shared { class, key });
            self.complete.extend(self.open.range(first..=last).map(|(group, _)| *group));
        }
    }

    /// Splits all open groups: each visit is answered alone, and nobody is awaited any more.
    pub(super) fn split(&mut self) {
        self.awaited.clear();
        self.complete.clear();
        for ticket in std::mem::take(&mut self.open).into_values().flatten() {
            self.join(ticket, Group::Alone(ticket));
        }
    }

    /// Takes the visits of the next group that can be answered.
    pub(super) fn next(&mut self) -> Option<Vec<Ticket>> {
        let group = self.complete.pop_front()?;
        self.open.remove(&group)
    }
}
