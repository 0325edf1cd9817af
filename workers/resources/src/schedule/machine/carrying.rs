//! The counters of what others show, and how a change is carried to all after a resource.

use super::super::interface::Reason;
use super::super::node::{Condition, Node};
use super::{Id, Machine};

impl Machine {
    /// Carries what has changed of a resource to all after it. Touches an edge once for each change
    /// of what the resource before it shows.
    pub(super) fn refresh(&mut self, id: Id) {
        let mut open = vec![id];
        while let Some(id) = open.pop() {
            let is = self.nodes[id].shows();
            let was = std::mem::replace(&mut self.nodes[id].shown, is);
            if was == is {
                continue;
            }
            count(&mut self.at_work, was.is_at_work, is.is_at_work);
            match (was.is_ready, is.is_ready) {
                (false, true) => drop(self.ready.insert(self.graph.rank(id))),
                (true, false) => drop(self.ready.remove(&self.graph.rank(id))),
                _ => {}
            }
            if was.is_unsettled != is.is_unsettled {
                for after in self.graph.after(id).iter().copied() {
                    let counter = &mut self.nodes[after].unsettled_before;
                    count(counter, was.is_unsettled, is.is_unsettled);
                    // Between two and more nothing changes for it.
                    if *counter <= 1 {
                        open.push(after);
                    }
                }
            }
            if was.is_failing != is.is_failing {
                for after in self.graph.needed_by(id).iter().copied() {
                    let node = &mut self.nodes[after];
                    count(&mut node.failing_needs, was.is_failing, is.is_failing);
                    node.end_hold();
                    if node.failing_needs <= 1 {
                        open.push(after);
                    }
                }
            }
        }
    }

    /// Counts everything anew, in the order of the graph.
    pub(super) fn recount(&mut self) {
        self.ready.clear();
        (self.at_work, self.failed) = (0, 0);
        for (rank, id) in self.graph.ids().iter().enumerate() {
            let (unsettled_before, failing_needs) = self.count_before(*id);
            let node = &mut self.nodes[*id];
            (node.unsettled_before, node.failing_needs) = (unsettled_before, failing_needs);
            node.end_hold();
            node.shown = node.shows();
            self.failed += usize::from(node.condition == Condition::Failed);
            self.at_work += usize::from(node.shown.is_at_work);
            if node.shown.is_ready {
                self.ready.insert(rank);
            }
        }
    }

    /// Returns how many resources directly before a resource show that they are unsettled, and how
    /// many of those that it needs show that they are failing.
    pub(super) fn count_before(&self, id: Id) -> (usize, usize) {
        let (before, needs) = (self.graph.before(id).iter(), self.graph.needs(id).iter());
        let unsettled = before.filter(|before| self.nodes[**before].shown.is_unsettled).count();
        let failing = needs.filter(|used| self.nodes[**used].shown.is_failing).count();
        (unsettled, failing)
    }
}

impl Node {
    /// Requests a visit if the resource was held back and nothing that it needs is failing now.
    fn end_hold(&mut self) {
        if self.failing_needs == 0 && std::mem::take(&mut self.is_held_back) {
            self.request = Some(Reason::Change);
        }
    }
}

/// Counts one more or one less, if a flag has changed.
fn count(counter: &mut usize, was: bool, is: bool) {
    *counter += usize::from(is);
    *counter -= usize::from(was);
}
