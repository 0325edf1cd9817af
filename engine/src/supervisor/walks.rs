//! Advances reports and graphs: walks over all names, a few in each turn of the loop.

use super::EventLoop;
use super::reply::answer;
use super::walk::{Found, Walk};
use crate::machine::NodeId;
use crate::vocabulary::wake::wake;

/// How many names one turn of the loop looks at.
const NAMES: usize = 256;

impl EventLoop {
    pub(super) fn begin_walk(&mut self, found: Found) {
        self.walks.push_back(Walk { next: 0, end: self.registry.slots.len(), found });
    }

    /// Continues the walks, and returns whether there is more to do. They wait until each change has
    /// reached all the workers that have to stop because of it: so they show all effects of the events
    /// that were before them.
    ///
    /// In an engine of at most [`NAMES`] names each walk is over in one turn, and shows one moment.
    pub(super) fn advance_walks(&mut self) -> bool {
        if self.walks.is_empty() {
            return false;
        }
        if self.registry.machine.is_spreading() {
            return true;
        }
        // So that the reports have the numbers of all events so far.
        self.hand_over_events();
        let mut left = NAMES;
        while left > 0
            && let Some(mut walk) = self.walks.pop_front()
        {
            if walk.found.is_abandoned() {
                self.discard(walk.found);
                continue;
            }
            // A small walk waits for the next turn, so that it shows one moment.
            if walk.next == 0 && walk.end <= NAMES && walk.end > left {
                self.walks.push_front(walk);
                break;
            }
            let end = walk.end.min(walk.next + left);
            left -= end - walk.next;
            for node in (walk.next..end).map(NodeId::from_index) {
                match &mut walk.found {
                    Found::Report(snapshot, _) => {
                        self.registry.add_to_report(snapshot, node, self.pace.now);
                    }
                    Found::Graph(graph, _) => self.registry.add_to_graph(graph, node),
                }
            }
            walk.next = end;
            if walk.next < walk.end {
                self.walks.push_front(walk);
                break;
            }
            match walk.found {
                Found::Report(snapshot, reply) => wake(|| {
                    if let Err(unwanted) = reply.send(snapshot) {
                        self.discard(unwanted);
                    }
                }),
                Found::Graph(graph, reply) => answer(reply, graph),
            }
        }
        !self.walks.is_empty()
    }
}
