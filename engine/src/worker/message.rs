use std::sync::Arc;

use super::finish::Finish;
use super::latest::Latest;
use crate::machine::{Generation, NodeId};
use crate::seen::report::Reporter;
use crate::vocabulary::value::Outputs;

/// What a worker tells, or a handle that is dropped.
pub(crate) enum Message {
    Started {
        node: NodeId,
        generation: Generation,
        outputs: Outputs,
        reporter: Option<Reporter>,
    },
    Ended {
        node: NodeId,
        generation: Generation,
        finish: Finish,
        /// Kept until what the worker offered is dropped, if something waits for the worker to be
        /// gone.
        dropping: Option<Box<dyn Send>>,
    },
    Changed {
        node: NodeId,
        generation: Generation,
        index: usize,
        latest: Arc<Latest>,
    },
    Health {
        node: NodeId,
        generation: Generation,
    },
    /// Nothing is left any more of a worker that has ended.
    Gone {
        node: NodeId,
        generation: Generation,
    },
    Unpin(NodeId),
}
