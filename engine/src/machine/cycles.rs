//! Questions about the graph as it would be: cycles, and who would have to end first.

use super::Machine;
use super::node::{Age, Edge, NodeId, StopStage};
use crate::vocabulary::hash::{Map, Set};

impl Machine {
    /// Whether a node can be reached from its own new inputs, searching from both sides by turns
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
            let Some(next) = above.stack.pop() else { return false };
            for link in &self.graph[next].inputs {
                if below.seen.contains(&link.edge.target) {
                    return true;
                }
                above.add(link.edge.target);
            }
            let Some(next) = below.stack.pop() else { return false };
            for user in &self.graph[next].users {
                if above.seen.contains(&user.node) {
                    return true;
                }
                below.add(user.node);
            }
        }
    }

    /// Returns the live workers that must be gone before these nodes' workers are, themselves
    /// included: also those of manifolds that were replaced, which are stopping already.
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

/// A search for a cycle on the graph as it would be with other inputs of some nodes: one depth-first
/// walk along users, from every node that is rewired. It takes small steps, between which inputs may
/// go, but none may come.
#[derive(Debug, Default)]
pub(crate) struct CycleSearch {
    /// The nodes that are rewired, in the order in which they are walked from.
    starts: Vec<NodeId>,
    next_start: usize,
    rewired: Set<NodeId>,
    /// The users that the rewirings add to a node: the place of the last, and after each the place
    /// of the one before.
    last_added: Map<NodeId, usize>,
    added: Vec<(NodeId, Option<usize>)>,
    /// Whether a node is on the path (`true`) or finished.
    on_path: Map<NodeId, bool>,
    path: Vec<(NodeId, Vec<NodeId>)>,
}

impl CycleSearch {
    /// Returns a search with room for so many rewirings.
    pub(crate) fn new(count: usize) -> Self {
        let mut search = Self::default();
        search.starts.reserve(count);
        search.rewired.reserve(count);
        search.last_added.reserve(count);
        search.added.reserve(count);
        search.on_path.reserve(count);
        search
    }

    /// Adds the inputs that a node would have.
    pub(crate) fn add(&mut self, id: NodeId, edges: &[Edge]) {
        self.starts.push(id);
        self.rewired.insert(id);
        for edge in edges {
            let before = self.last_added.insert(edge.target, self.added.len());
            self.added.push((id, before));
        }
    }

    /// How many rewirings were added.
    pub(crate) fn len(&self) -> usize {
        self.starts.len()
    }

    /// Takes a step; returns a cycle's path, each node using the next and the last the first.
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
        let kept = machine.graph[id].users.iter().map(|user| user.node);
        let mut users: Vec<_> = kept.filter(|user| !self.rewired.contains(user)).collect();
        let mut last = self.last_added.get(&id).copied();
        while let Some(at) = last {
            let (user, before) = self.added[at];
            users.push(user);
            last = before;
        }
        self.path.push((id, users));
    }

    /// The path runs from what is used to its user; a reader wants it the other way.
    fn cycle_from(&self, first: NodeId) -> Vec<NodeId> {
        let on_cycle = self.path.iter().map(|(id, _)| *id).skip_while(|id| *id != first);
        let mut cycle: Vec<_> = on_cycle.collect();
        cycle.reverse();
        cycle
    }
}

/// What a step of a search has come to.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Found {
    /// Nothing yet.
    Nothing,
    /// There is no cycle.
    None,
    Cycle(Vec<NodeId>),
}
