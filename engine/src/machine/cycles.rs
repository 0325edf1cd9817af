//! Questions about a planned change of the graph: whether it closes a cycle, and which workers must
//! be gone first.

use super::Machine;
use super::node::{Age, Edge, NodeId, StopStage};
use crate::vocabulary::hash::{Map, Set};

impl Machine {
    /// Whether a node can be reached from its own new inputs. Searches from both sides in turn,
    /// until the smaller side is exhausted.
    pub(crate) fn may_reach(&self, id: NodeId, edges: &[Edge]) -> bool {
        let mut above = Side::default();
        for edge in edges {
            if edge.target == id {
                return true;
            }
            above.add(edge.target);
        }
        let mut below = Side::default();
        below.add(id);
        loop {
            // If nothing is left below, all that uses the node was compared with its inputs.
            if below.stack.is_empty() {
                return false;
            }
            let Some(next) = above.stack.pop() else { return false };
            let inputs = self.graph[next].inputs.iter().map(|link| link.edge.target);
            for input in inputs.chain(self.graph[next].members()) {
                if below.seen.contains(&input) {
                    return true;
                }
                above.add(input);
            }
            let Some(next) = below.stack.pop() else { return false };
            for user in self.graph[next].all_users() {
                if above.seen.contains(&user) {
                    return true;
                }
                below.add(user);
            }
        }
    }

    /// Returns the live workers of these nodes, and all live workers that must be gone before them.
    /// Includes workers of replaced manifolds, which are stopping already. Leaves out stuck
    /// workers.
    pub(crate) fn ending_before(&self, roots: &[NodeId]) -> Vec<NodeId> {
        let mut side = Side::default();
        let mut found = Vec::new();
        for root in roots {
            side.add(*root);
        }
        while let Some(id) = side.stack.pop() {
            let node = &self.graph[id];
            if !node.is_live() || node.stage == StopStage::Stuck {
                continue;
            }
            found.push(id);
            for age in [Age::Current, Age::Old] {
                for user in node.users(age) {
                    let link = self.graph[user.node].inputs(age)[user.input as usize];
                    if link.edge.need.bounces() && link.held == node.generation {
                        side.add(user.node);
                    }
                }
            }
        }
        found
    }
}

#[derive(Default)]
struct Side {
    seen: Set<NodeId>,
    stack: Vec<NodeId>,
}

impl Side {
    fn add(&mut self, id: NodeId) {
        if self.seen.insert(id) {
            self.stack.push(id);
        }
    }
}

/// A search for a cycle in the graph as it would be after some nodes are rewired: given other
/// inputs. It is one depth-first walk along users, from every rewired node. It takes small steps;
/// between them, inputs may be removed from the graph but not added.
#[derive(Debug, Default)]
pub(crate) struct CycleSearch {
    /// The rewired nodes, in the order in which the walk starts from them.
    starts: Vec<NodeId>,
    next_start: usize,
    rewired: Set<NodeId>,
    /// For each node, the index in `added` of the last user that the rewiring adds. Each item of
    /// `added` holds the index of the one before.
    last_added: Map<NodeId, usize>,
    added: Vec<(NodeId, Option<usize>)>,
    /// `true` for a node on the path, `false` for a finished one.
    on_path: Map<NodeId, bool>,
    path: Vec<(NodeId, Vec<NodeId>)>,
}

impl CycleSearch {
    /// Returns a search with room for `count` rewired nodes.
    pub(crate) fn new(count: usize) -> Self {
        let mut search = Self::default();
        search.starts.reserve(count);
        search.rewired.reserve(count);
        search.last_added.reserve(count);
        search.added.reserve(count);
        search.on_path.reserve(count);
        search
    }

    /// Adds a rewired node with its new inputs.
    pub(crate) fn add(&mut self, id: NodeId, edges: &[Edge]) {
        self.starts.push(id);
        self.rewired.insert(id);
        for edge in edges {
            let before = self.last_added.insert(edge.target, self.added.len());
            self.added.push((id, before));
        }
    }

    /// Returns how many rewired nodes were added.
    pub(crate) fn len(&self) -> usize {
        self.starts.len()
    }

    /// Takes one step. Returns the path of a cycle if it finds one: each node uses the next, and
    /// the last uses the first.
    pub(crate) fn step(&mut self, machine: &Machine) -> Found {
        let Some((id, users)) = self.path.last_mut() else {
            let Some(start) = self.starts.get(self.next_start).copied() else {
                return Found::None;
            };
            self.next_start += 1;
            if !self.on_path.contains_key(&start) {
                self.enter(machine, start);
            }
            return Found::Nothing;
        };
        let Some(user) = users.pop() else {
            self.on_path.insert(*id, false);
            self.path.pop();
            return Found::Nothing;
        };
        match self.on_path.get(&user) {
            None => self.enter(machine, user),
            Some(false) => {}
            Some(true) => return Found::Cycle(self.cycle_from(user)),
        }
        Found::Nothing
    }

    fn enter(&mut self, machine: &Machine, id: NodeId) {
        self.on_path.insert(id, true);
        let mut users: Vec<_> =
            machine.graph[id].all_users().filter(|user| !self.rewired.contains(user)).collect();
        let mut last = self.last_added.get(&id).copied();
        while let Some(at) = last {
            let (user, before) = self.added[at];
            users.push(user);
            last = before;
        }
        self.path.push((id, users));
    }

    /// Returns the cycle on the path. The path leads from input to user, and readers expect the
    /// reverse.
    fn cycle_from(&self, first: NodeId) -> Vec<NodeId> {
        let on_cycle = self.path.iter().map(|(id, _)| *id).skip_while(|id| *id != first);
        let mut cycle: Vec<_> = on_cycle.collect();
        cycle.reverse();
        cycle
    }
}

/// The result of one step of a search.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Found {
    /// The search is not finished.
    Nothing,
    /// There is no cycle.
    None,
    Cycle(Vec<NodeId>),
}
