//! Walks over all names, a few in each turn of the loop.

use super::ask::Snapshot;
use super::reply::Reply;
use crate::seen::graph::Graph;

/// A walk over all names: where it is, and what it has found.
pub(super) struct Walk {
    pub(super) next: usize,
    /// Names that come meanwhile may be missed, so that the walk ends.
    pub(super) end: usize,
    pub(super) found: Found,
}

pub(super) enum Found {
    Report(Snapshot, Reply<Snapshot>),
    Graph(Graph, Reply<Graph>),
}

impl Found {
    /// Whether nobody waits for it any more.
    pub(super) fn is_abandoned(&self) -> bool {
        match self {
            Self::Report(_, reply) => reply.is_closed(),
            Self::Graph(_, reply) => reply.is_closed(),
        }
    }
}
