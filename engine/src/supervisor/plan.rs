//! The nodes and edges that a group of changes is about, and what is wrong with the group.

use smallvec::SmallVec;

use crate::change::ChangeError;
use crate::machine::{Edge, NodeId};
use crate::vocabulary::hash::Map;

/// How many errors of a group are kept; further ones are only counted.
const MOST_TOLD: usize = 64;

/// The errors found in a group so far.
#[derive(Default)]
pub(super) struct Faults {
    told: Vec<ChangeError>,
    more: usize,
}

impl Faults {
    pub(super) fn add(&mut self, fault: impl FnOnce() -> ChangeError) {
        if self.told.len() < MOST_TOLD {
            self.told.push(fault());
        } else {
            self.more += 1;
        }
    }

    pub(super) fn count(&self) -> usize {
        self.told.len() + self.more
    }

    pub(super) fn into_result(mut self) -> Result<(), ChangeError> {
        match self.count() {
            0 => Ok(()),
            1 => Err(self.told.remove(0)),
            _ => Err(ChangeError::Several { errors: self.told, more: self.more }),
        }
    }
}

/// The nodes and edges that a group changes.
#[derive(Default)]
pub(super) struct Plan {
    /// The node and the edges of each op.
    pub(super) planned: SmallVec<[Planned; 1]>,
    /// The first op of each node.
    by_node: Map<NodeId, usize>,
    /// The ops whose manifolds have inputs or users: their types and cycles are to be checked.
    pub(super) linked: Vec<usize>,
}

/// The node and the edges of one op.
pub(super) struct Planned {
    pub(super) node: NodeId,
    /// The new inputs of the node; none if the op does not install.
    pub(super) edges: Box<[Edge]>,
}

impl Plan {
    /// Makes room for a group of this many ops.
    pub(super) fn reserve(&mut self, count: usize) {
        self.planned.reserve(count);
        self.by_node.reserve(count);
    }

    /// Adds the node and the edges of the next op.
    pub(super) fn push(&mut self, planned: Planned) {
        // Of several ops about one node, the first counts.
        self.by_node.entry(planned.node).or_insert(self.planned.len());
        self.planned.push(planned);
    }

    /// Returns the index of the op that changes a node, among the ops added so far.
    pub(super) fn op_of(&self, node: NodeId) -> Option<usize> {
        self.by_node.get(&node).copied()
    }

    /// Returns the node of each op.
    pub(super) fn nodes(&self) -> impl Iterator<Item = NodeId> {
        self.planned.iter().map(|planned| planned.node)
    }
}
