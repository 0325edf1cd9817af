//! How notifications become pending, are sent, delivered and acknowledged, and other requests
//! that follow from a report.

use super::super::interface::{Because, Command, Reason, Record};
use super::super::node::{Condition, Visit};
use super::{Id, Machine};

impl Machine {
    /// Puts on record the notifications of a resource that may act now (I6).
    pub(super) fn expect_notifications(&mut self, source: Id) {
        for target in self.graph.notifies(source).to_vec() {
            if self.notifications.is_expected(target, source) {
                continue;
            }
            if self.notifications.expect(target, source) {
                self.write(Record::Pending { target, source });
            }
            self.nodes[source].visit.iter_mut().for_each(|visit| visit.targets.push(target));
        }
    }

    /// Sends a notification: its source has acted, or may have.
    pub(super) fn send(&mut self, target: Id, source: Id) {
        self.notifications.send(target, source);
        self.deliver(target, source);
    }

    /// Takes a notification back: its source has not acted.
    pub(super) fn withdraw(&mut self, target: Id, source: Id) {
        if self.notifications.withdraw(target, source) {
            self.write(Record::Acknowledged { target, source });
        }
    }

    /// Acknowledges the notifications that a good visit has answered (I7).
    pub(super) fn acknowledge(&mut self, target: Id, visit: &Visit) {
        for source in visit.delivered.iter().copied() {
            if self.notifications.acknowledge(target, source, visit.began) {
                self.write(Record::Acknowledged { target, source });
            }
        }
    }

    /// Acknowledges the notifications that were delivered to the visit of a resource: it has done
    /// what they mean, though it has not ended (I7).
    pub(crate) fn acknowledge_delivered(&mut self, target: Id) {
        let visit = self.nodes.get(target).and_then(|node| node.visit.clone());
        visit.iter().for_each(|visit| self.acknowledge(target, visit));
    }

    /// Requests a visit of the target if the notification was sent and can be delivered.
    pub(super) fn deliver(&mut self, target: Id, source: Id) {
        if self.notifications.is_sent(target, source) && !self.waits(target, source) {
            self.request_newer(target);
        }
    }

    /// Delivers the notifications of a resource that were sent, and that waited until it was good.
    pub(super) fn deliver_from(&mut self, source: Id) {
        for target in self.graph.notifies(source).to_vec() {
            self.deliver(target, source);
        }
    }

    /// Returns whether a notification waits because its source is not good. It does not wait for a
    /// source that notifies the target no more.
    pub(super) fn waits(&self, target: Id, source: Id) -> bool {
        let is_notifier = self.graph.notifies(source).binary_search(&target).is_ok();
        is_notifier && self.nodes[source].condition != Condition::Good
    }

    /// Requests a visit because of something new. A visit under way may not act without it.
    pub(super) fn request_newer(&mut self, id: Id) {
        if self.graph.contains(id) {
            if let Some(visit) = &mut self.nodes[id].visit
                && !std::mem::replace(&mut visit.is_outdated, true)
            {
                self.commands.push_back(Command::Wake { id });
            }
            self.request(id, Reason::Change);
        }
    }

    /// Requests visits of the resources that have failed and need this one, at any distance: it may
    /// have been the reason.
    pub(super) fn wake_failed_after(&mut self, repaired: Id) {
        if self.failed == 0 {
            return;
        }
        let (mut open, mut is_seen) = (vec![repaired], vec![false; self.graph.len()]);
        while let Some(id) = open.pop() {
            for after in self.graph.needed_by(id).to_vec() {
                if std::mem::replace(&mut is_seen[after.0], true) {
                    continue;
                }
                open.push(after);
                if self.nodes[after].condition == Condition::Failed {
                    self.note_because(after, Because::Repaired(repaired));
                    self.request(after, Reason::Change);
                }
            }
        }
    }

    /// Notes the part of another resource in the visit that is requested now, unless there is a
    /// request already.
    pub(super) fn note_because(&mut self, id: Id, because: Because) {
        if let Some(node) = self.nodes.get_mut(id).filter(|node| node.request.is_none()) {
            node.because = Some(because);
        }
    }
}
