//! The messages that workers and handles send to the loop.

use std::sync::Arc;

use super::acknowledgement::Acknowledgement;
use super::finish::Finish;
use super::latest::Latest;
use crate::machine::{Generation, NodeId};
use crate::seen::event::Origin;
use crate::seen::report::ReportFn;
use crate::vocabulary::name::Text;
use crate::vocabulary::value::Outputs;

/// What a worker notes.
pub(crate) struct Note {
    pub(crate) node: NodeId,
    pub(crate) name: Text,
    pub(crate) text: String,
    pub(crate) origin: Origin,
}

/// A message to the loop. Workers send all of them except `Unpin`: it comes from a follower outside
/// the loop that no longer needs the name.
pub(crate) enum Message {
    Started {
        node: NodeId,
        generation: Generation,
        outputs: Outputs,
        reporter: Option<ReportFn>,
    },
    Ended {
        node: NodeId,
        generation: Generation,
        finish: Finish,
        /// Whether an admission has refused the worker.
        is_refused: bool,
        /// Keeps the worker from counting as gone until the loop has dropped what the worker
        /// offered. `None` if nothing waits for the worker to be gone, or if the loop has nothing
        /// to drop.
        dropping: Option<Box<dyn Send>>,
    },
    Changed {
        node: NodeId,
        generation: Generation,
        index: usize,
        latest: Arc<Latest>,
        /// Of the values up to the one that waits there, or up to the last one that was taken.
        acknowledgements: Vec<Acknowledgement>,
    },
    Health {
        node: NodeId,
        generation: Generation,
    },
    /// A worker has a reporter before it is up.
    Reports {
        node: NodeId,
        generation: Generation,
        reporter: ReportFn,
    },
    /// A worker notes what it has done. The name is that of the worker, whose node may be another's by now.
    Noted(Box<Note>),
    /// An ended worker is gone: nothing of it lingers.
    Gone {
        node: NodeId,
        generation: Generation,
    },
    Unpin(NodeId),
    /// A worker waits for something that is none of its inputs.
    Awaits {
        node: NodeId,
        generation: Generation,
        id: u64,
        what: String,
    },
    AwaitOver {
        node: NodeId,
        id: u64,
    },
}
