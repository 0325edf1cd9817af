//! The dependency graph: who uses whom, linked so that every change costs what it touches.

use super::node::{Age, Edge, Link, Node, NodeId, User};
use crate::vocabulary::chunks::Chunks;
use crate::vocabulary::hash::Map;

/// All nodes, by id. An id is reused after its node was freed.
#[derive(Debug, Clone, Default)]
pub(super) struct DependencyGraph {
    nodes: Chunks<Node>,
    free: Vec<NodeId>,
    /// What a trial changes is put back at its end.
    trial: Option<Box<Undo>>,
}

/// The nodes as they were before a trial, of those that it has changed.
#[derive(Debug, Clone, Default)]
struct Undo {
    nodes: Map<NodeId, Node>,
    /// How many ids were free.
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

    /// Adds a node that nothing is installed at.
    pub(super) fn add(&mut self) -> NodeId {
        if let Some(id) = self.free.pop() {
            self[id].is_free = false;
            return id;
        }
        let id = NodeId::from_index(self.nodes.len());
        self.nodes.push_with(Node::default);
        id
    }

    /// Makes an id available again. Its generation is kept, so that nothing late is taken for new.
    pub(super) fn free(&mut self, id: NodeId) {
        let node = &mut self[id];
        *node = Node {
            generation: node.generation,
            token: node.token,
            is_free: true,
            ..Node::default()
        };
        self.free.push(id);
    }

    /// Keeps a node as it was before the trial, if it was not changed yet.
    #[cold]
    fn keep(&mut self, id: NodeId) {
        let Some(undo) = &mut self.trial else { return };
        let node = &self.nodes[id.index()];
        undo.nodes.entry(id).or_insert_with(|| node.clone());
    }

    /// Begins a trial: what is changed from now on is put back by [`Self::end_trial`].
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

    /// One past the highest id in use.
    pub(super) fn bound(&self) -> usize {
        self.nodes.len()
    }

    /// Sets a node's inputs, and enters it as a user of each.
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

    /// Takes a node's inputs away and returns them; it uses nothing afterwards.
    pub(super) fn unlink(&mut self, id: NodeId) -> Box<[Link]> {
        let mut links = std::mem::take(&mut self[id].inputs);
        self.leave(id, &mut links, Age::Current);
        links
    }

    /// Keeps those of a former manifold's inputs that its live worker was started with.
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

    /// Drops what the worker of a former manifold was started with.
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

    /// Takes a node out of the users of each of its inputs.
    fn leave(&mut self, id: NodeId, links: &mut [Link], age: Age) {
        for index in 0..links.len() {
            let Link { edge, back, .. } = links[index];
            let users = self[edge.target].users_mut(age);
            users.swap_remove(back as usize);
            // The last user took the free place; its own link must follow it there.
            let Some(&moved) = users.get(back as usize) else { continue };
            if moved.node == id {
                links[moved.input as usize].back = back;
            } else {
                self[moved.node].inputs_mut(age)[moved.input as usize].back = back;
            }
        }
    }
}
