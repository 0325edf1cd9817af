//! The questions that the machine answers; none of them changes it.

use super::super::graph::Graph;
use super::super::interface::Standing;
use super::super::node::Condition;
use super::{Id, Machine};

impl Machine {
    /// Returns how a resource stands, if there is such a resource.
    pub(crate) fn standing(&self, id: Id) -> Option<Standing> {
        if !self.graph.contains(id) {
            return None;
        }
        let node = &self.nodes[id];
        Some(if node.shown.is_at_work {
            Standing::AtWork
        } else if let Some(by) = self.held_back_by(id).filter(|_| node.is_held_back) {
            Standing::HeldBack(by)
        } else if node.condition == Condition::Failed {
            Standing::Failed
        } else if node.has_worker && node.condition == Condition::Good {
            Standing::Good
        } else {
            Standing::Absent
        })
    }

    /// Whether nothing is to be done before the next event. Asked after all commands were taken; in
    /// one pass it is over then.
    pub(crate) fn is_at_rest(&self) -> bool {
        self.visited == 0 && self.at_work == 0 && self.ready.is_empty()
    }

    /// Returns the resources and the order among them.
    pub(crate) fn graph(&self) -> &Graph {
        &self.graph
    }

    /// Returns the first resource that a resource waits for: one before it, at any distance, that
    /// is unsettled itself.
    pub(crate) fn waits_for(&self, id: Id) -> Option<Id> {
        let mut id = id;
        loop {
            let mut before = self.graph.before(id).iter().copied();
            id = before.find(|before| self.nodes[*before].shown.is_unsettled)?;
            if self.nodes[id].unsettled_before == 0 {
                return Some(id);
            }
        }
    }

    /// Returns how many visits work at a time, if a visit of the resource is to begin and waits
    /// only until one of them ends.
    pub(crate) fn lacks_slot(&self, id: Id) -> Option<usize> {
        let is_ready = self.nodes.get(id).is_some_and(|node| node.shown.is_ready);
        (is_ready && !self.has_slot()).then_some(self.policy.slots)
    }

    /// Returns whether something new was sent to a resource since its visit began.
    pub(crate) fn is_outdated(&self, id: Id) -> bool {
        let visit = self.nodes.get(id).and_then(|node| node.visit.as_ref());
        visit.is_some_and(|visit| visit.is_outdated)
    }

    /// Returns the pending notifications, as target and source.
    pub(crate) fn pending(&self) -> impl Iterator<Item = (Id, Id)> {
        self.notifications.pending()
    }

    /// Returns the first resource that holds a resource back: one that it needs, at any distance,
    /// and that is failing itself (I11).
    fn held_back_by(&self, id: Id) -> Option<Id> {
        let mut id = id;
        loop {
            let mut needs = self.graph.needs(id).iter().copied();
            id = needs.find(|used| self.nodes[*used].shown.is_failing)?;
            if self.nodes[id].is_failing_itself() {
                return Some(id);
            }
        }
    }

    /// Returns the counter that does not agree with a count from scratch (I1), if there is one.
    #[cfg(test)]
    pub(crate) fn miscount(&self) -> Option<String> {
        let ids = self.graph.ids();
        for id in ids {
            let (node, expected) = (&self.nodes[*id], self.count_before(*id));
            let counted = (node.unsettled_before, node.failing_needs);
            if counted != expected || node.shown != node.shows() {
                return Some(format!("{id:?} has counted {counted:?}, not {expected:?}: {node:?}"));
            }
        }
        let nodes = || ids.iter().map(|id| &self.nodes[*id]);
        let visits = || nodes().filter_map(|node| node.visit.as_ref());
        let counted = [self.visited, self.working, self.at_work, self.failed, self.ready.len()];
        let expected = [
            visits().count(),
            visits().filter(|visit| visit.has_slot).count(),
            nodes().filter(|node| node.shown.is_at_work).count(),
            nodes().filter(|node| node.condition == Condition::Failed).count(),
            nodes().filter(|node| node.shown.is_ready).count(),
        ];
        (counted != expected).then(|| format!("the sums are {counted:?}, not {expected:?}"))
    }
}
