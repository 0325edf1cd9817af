//! Questions about the graph as it would be: cycles, and whom a change would bounce.

use super::Machine;
use super::node::{Age, Edge, NodeId, Stage};
use crate::hash::{Map, Set};

/// The inputs that a node would have after a change: none if it would be taken out.
pub(crate) type Rewiring<'a> = (NodeId, &'a [Edge]);

impl Machine {
    /// Returns the path of a cycle that the rewirings would make, each node using the next and the
    /// last the first.
    ///
    /// A single install costs the smaller of what it uses and what uses it; a group costs one walk
    /// of what uses the nodes it changes.
    pub(crate) fn find_cycle(&self, rewirings: &[Rewiring<'_>]) -> Option<Vec<NodeId>> {
        if let [(id, edges)] = rewirings
            && !self.may_reach(*id, edges)
        {
            return None;
        }
        Walk::new(self, rewirings).find_cycle()
    }

    /// Whether a node can be reached from its own new inputs, searching from both sides by turns
    /// until the smaller side is exhausted.
    fn may_reach(&self, id: NodeId, edges: &[Edge]) -> bool {
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

    /// Returns the live workers that would be stopped if these nodes' workers were, themselves
    /// included.
    pub(crate) fn bounced_with(&self, roots: &[NodeId]) -> Vec<NodeId> {
        self.reached_from(roots, &[Age::Current])
    }

    /// Returns the live workers that must have ended before these nodes' workers have, themselves
    /// included: also those of manifolds that were replaced, which are stopping already.
    pub(crate) fn ending_before(&self, roots: &[NodeId]) -> Vec<NodeId> {
        self.reached_from(roots, &[Age::Current, Age::Old])
    }

    fn reached_from(&self, roots: &[NodeId], ages: &[Age]) -> Vec<NodeId> {
        let mut side = Side::default();
        let mut found = Vec::new();
        for root in roots {
            side.add(*root);
        }
        while let Some(id) = side.stack.pop() {
            let node = &self.graph[id];
            if !node.is_live() || node.stage == Stage::Stuck {
                continue;
            }
            found.push(id);
            for age in ages {
                for user in node.users(*age) {
                    let link = self.graph[user.node].inputs(*age)[user.input as usize];
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

/// One depth-first walk along users, from every node that is rewired.
struct Walk<'a> {
    machine: &'a Machine,
    rewired: Map<NodeId, &'a [Edge]>,
    /// The users that the rewirings add.
    added: Map<NodeId, Vec<NodeId>>,
    /// Whether a node is on the path (`true`) or finished.
    on_path: Map<NodeId, bool>,
    path: Vec<(NodeId, Vec<NodeId>)>,
}

impl<'a> Walk<'a> {
    fn new(machine: &'a Machine, rewirings: &[Rewiring<'a>]) -> Self {
        let mut rewired = Map::default();
        let mut added: Map<NodeId, Vec<NodeId>> = Map::default();
        for (id, edges) in rewirings {
            rewired.insert(*id, *edges);
            for edge in *edges {
                added.entry(edge.target).or_default().push(*id);
            }
        }
        Self { machine, rewired, added, on_path: Map::default(), path: Vec::new() }
    }

    fn users(&self, id: NodeId) -> Vec<NodeId> {
        let kept = self.machine.graph[id].users.iter().map(|user| user.node);
        let mut users: Vec<_> = kept.filter(|user| !self.rewired.contains_key(user)).collect();
        users.extend(self.added.get(&id).into_iter().flatten());
        users
    }

    fn find_cycle(mut self) -> Option<Vec<NodeId>> {
        let mut starts: Vec<_> = self.rewired.keys().copied().collect();
        starts.sort_unstable();
        starts.into_iter().find_map(|start| self.walk_from(start))
    }

    fn walk_from(&mut self, start: NodeId) -> Option<Vec<NodeId>> {
        if self.on_path.contains_key(&start) {
            return None;
        }
        self.enter(start);
        while let Some((id, users)) = self.path.last_mut() {
            let Some(user) = users.pop() else {
                self.on_path.insert(*id, false);
                self.path.pop();
                continue;
            };
            match self.on_path.get(&user) {
                None => self.enter(user),
                Some(false) => {}
                Some(true) => return Some(self.cycle_from(user)),
            }
        }
        None
    }

    fn enter(&mut self, id: NodeId) {
        self.on_path.insert(id, true);
        let users = self.users(id);
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
