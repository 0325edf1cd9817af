//! What a group of changes is to the graph, and what is wrong with it.

use smallvec::SmallVec;

use crate::change::ChangeError;
use crate::machine::{Edge, NodeId};
use crate::vocabulary::hash::Map;

/// How many things that are wrong with a group are told; the others are counted.
const MOST_TOLD: usize = 64;

/// What is wrong with a group, as far as it was checked.
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

/// What a group is to the graph.
#[derive(Default)]
pub(super) struct Plan {
    /// What each op is about.
    pub(super) planned: SmallVec<[Planned; 1]>,
    /// The op of each node.
    by_node: Map<NodeId, usize>,
    /// The ops whose manifolds use others or are used: their types and cycles are to be checked.
    pub(super) linked: Vec<usize>,
}

/// What an op is about.
pub(super) struct Planned {
    pub(super) node: NodeId,
    /// The inputs that it gives its node; none if it does not install.
    pub(super) edges: Box<[Edge]>,
}

impl Plan {
    /// Makes room for a group of so many ops.
    pub(super) fn reserve(&mut self, count: usize) {
        self.planned.reserve(count);
        self.by_node.reserve(count);
    }

    /// Adds what the next op is about.
    pub(super) fn push(&mut self, planned: Planned) {
        // Of several ops about one node, the first counts.
        self.by_node.entry(planned.node).or_insert(self.planned.len());
        self.planned.push(planned);
    }

    /// Returns the op that changes a node, of those that were added.
    pub(super) fn op_of(&self, node: NodeId) -> Option<usize> {
        self.by_node.get(&node).copied()
    }

    /// Returns the node of each op.
    pub(super) fn nodes(&self) -> impl Iterator<Item = NodeId> {
        self.planned.iter().map(|planned| planned.node)
    }
}
