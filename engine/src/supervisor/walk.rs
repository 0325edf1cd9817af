//! The state of a walk over all names.

use super::reply::Reply;
use super::snapshot::Snapshot;
use crate::seen::graph::Graph;

/// A walk over all names: how far it has come, and what it has found.
pub(super) struct Walk {
    pub(super) next: usize,
    /// The number of slots when the walk began. Names added later may be missed, so that the walk
    /// ends.
    pub(super) end: usize,
    pub(super) found: Found,
}

pub(super) enum Found {
    Report(Snapshot, Reply<Snapshot>),
    Graph(Graph, Reply<Graph>),
}

impl Found {
    /// Whether nobody waits for the result any more.
    pub(super) fn is_abandoned(&self) -> bool {
        match self {
            Self::Report(_, reply) => reply.is_closed(),
            Self::Graph(_, reply) => reply.is_closed(),
        }
    }
}
