//! The dependency graph. Its links lead both ways, so that every change costs only what it touches.

use super::node::{Age, Edge, Link, Node, NodeId, User};
use crate::vocabulary::chunks::Chunks;
use crate::vocabulary::hash::Map;

/// All nodes, by id. An id is reused after its node was freed.
#[derive(Debug, Clone, Default)]
pub(super) struct DependencyGraph {
    nodes: Chunks<Node>,
    free: Vec<NodeId>,
    /// The nodes to put back at the end of a trial.
    trial: Option<Box<Undo>>,
}

/// The nodes that a trial has changed, as they were before it.
#[derive(Debug, Clone, Default)]
struct Undo {
    nodes: Map<NodeId, Node>,
    /// How many ids were free before the trial.
    free: usize,
}

impl std::ops::Index<NodeId> for DependencyGraph {
    type Output = Node;

    #[inline]
    fn index(&self, id: NodeId) -> &Node {
        &self.nodes[id.index()]
    }
}

impl std::ops::IndexMut<NodeId> for DependencyGraph {
    #[inline]
    fn index_mut(&mut self, id: NodeId) -> &mut Node {
        if self.trial.is_some() {
            self.keep(id);
        }
        &mut self.nodes[id.index()]
    }
}

impl DependencyGraph {
    pub(super) fn reserve(&mut self, more: usize) {
        self.nodes.reserve(more);
    }

    /// Adds a node without a manifold.
    pub(super) fn add(&mut self) -> NodeId {
        if let Some(id) = self.free.pop() {
            self[id].is_free = false;
            return id;
        }
        let id = NodeId::from_index(self.nodes.len());
        self.nodes.push_with(Node::default);
        id
    }

    /// Makes a node a member of a set.
    pub(super) fn join(&mut self, set: NodeId, member: NodeId) {
        if self[set].extras_mut().members.insert(member) {
            self[member].extras_mut().sets.push(set);
        }
    }

    /// Takes a node out of its sets, and its members out of it.
    fn leave_sets(&mut self, id: NodeId) {
        let Some(extras) = &mut self[id].extras else { return };
        let (members, sets) =
            (std::mem::take(&mut extras.members), std::mem::take(&mut extras.sets));
        for set in sets {
            self[set].extras_mut().members.remove(&id);
        }
        for member in members {
            self[member].extras_mut().sets.retain(|set| *set != id);
            self[member].trim();
        }
    }

    /// Makes an id available again. Its generation and token are kept, so that an event of the
    /// freed node cannot match the next one.
    pub(super) fn free(&mut self, id: NodeId) {
        self.leave_sets(id);
        let node = &mut self[id];
        *node = Node {
            generation: node.generation,
            token: node.token,
            is_free: true,
            ..Node::default()
        };
        self.free.push(id);
    }

    /// Saves a node as it was before the trial, if the trial has not changed it yet.
    #[cold]
    fn keep(&mut self, id: NodeId) {
        let Some(undo) = &mut self.trial else { return };
        let node = &self.nodes[id.index()];
        undo.nodes.entry(id).or_insert_with(|| node.clone());
    }

    /// Begins a trial. [`Self::end_trial`] undoes all changes from now on.
    pub(super) fn begin_trial(&mut self) {
        self.trial = Some(Box::new(Undo { nodes: Map::default(), free: self.free.len() }));
    }

    pub(super) fn end_trial(&mut self) {
        let Some(undo) = self.trial.take() else { return };
        for (id, node) in undo.nodes {
            self[id] = node;
        }
        self.free.truncate(undo.free);
    }

    /// Returns the nodes that the trial has changed.
    pub(super) fn touched(&self) -> Vec<NodeId> {
        self.trial.iter().flat_map(|undo| undo.nodes.keys().copied()).collect()
    }

    /// Returns one more than the highest index.
    pub(super) fn bound(&self) -> usize {
        self.nodes.len()
    }

    /// Sets a node's inputs, and adds the node to the users of each input.
    pub(super) fn link(&mut self, id: NodeId, edges: &[Edge]) {
        let mut links = Vec::with_capacity(edges.len());
        for (input, edge) in edges.iter().enumerate() {
            let users = &mut self[edge.target].users;
            let back = u32::try_from(users.len()).expect("ids are 32 bits wide, and so are users");
            let input = u32::try_from(input).expect("a manifold has fewer inputs than ids");
            users.push(User { node: id, input });
            links.push(Link { edge: *edge, back, held: 0 });
        }
        self[id].inputs = links.into_boxed_slice();
    }

    /// Removes a node's inputs and returns them.
    pub(super) fn unlink(&mut self, id: NodeId) -> Box<[Link]> {
        let mut links = std::mem::take(&mut self[id].inputs);
        self.leave(id, &mut links, Age::Current);
        links
    }

    /// Keeps the inputs with which the live worker of a former manifold was started.
    pub(super) fn keep_old(&mut self, id: NodeId, links: &[Link]) {
        let mut held: Box<[_]> = links.iter().filter(|link| link.held != 0).copied().collect();
        for (input, link) in held.iter_mut().enumerate() {
            let users = self[link.edge.target].users_mut(Age::Old);
            link.back = u32::try_from(users.len()).expect("ids are 32 bits wide, and so are users");
            let input = u32::try_from(input).expect("a manifold has fewer inputs than ids");
            users.push(User { node: id, input });
        }
        if !held.is_empty() {
            self[id].extras_mut().old_inputs = held;
        }
    }

    /// Drops the inputs that [`Self::keep_old`] kept.
    pub(super) fn drop_old(&mut self, id: NodeId) {
        if let Some(extras) = &mut self[id].extras {
            let mut links = std::mem::take(&mut extras.old_inputs);
            self.leave(id, &mut links, Age::Old);
            self[id].trim();
            for link in &links {
                self[link.edge.target].trim();
            }
        }
    }

    /// Removes a node from the users of each of its inputs.
    fn leave(&mut self, id: NodeId, links: &mut [Link], age: Age) {
        for index in 0..links.len() {
            let Link { edge, back, .. } = links[index];
            let users = self[edge.target].users_mut(age);
            users.swap_remove(back as usize);
            // `swap_remove` moved the last user here. The link of that user must point here, too.
            let Some(&moved) = users.get(back as usize) else { continue };
            if moved.node == id {
                links[moved.input as usize].back = back;
            } else {
                self[moved.node].inputs_mut(age)[moved.input as usize].back = back;
            }
        }
    }
}
