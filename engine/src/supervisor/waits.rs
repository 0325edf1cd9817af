//! What workers wait for apart from their declared inputs: outputs that they ask the engine for, and
//! whatever else they say.

use tokio::sync::oneshot;

use crate::change::ChangeError;
use crate::machine::{Generation, NodeId};
use crate::vocabulary::hash::Map;
use crate::vocabulary::value::Kind;

/// All waits of an engine's workers, by worker.
pub(super) type Waits = Map<NodeId, Vec<Wait>>;

pub(super) struct Wait {
    pub(super) generation: Generation,
    pub(super) id: u64,
    pub(super) what: What,
}

pub(super) enum What {
    /// An output of a name. The sender refuses the wait.
    Output(NodeId, &'static Kind, oneshot::Sender<ChangeError>),
    /// Something that only the worker knows.
    Other(String),
}
