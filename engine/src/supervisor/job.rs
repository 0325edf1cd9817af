//! A group of changes on its way through the loop.

use std::sync::Arc;

use tokio::sync::oneshot;

use super::applied::Applied;
use super::plan::{Faults, Plan};
use super::reply::ChangeReply;
use crate::change::Ops;
use crate::machine::cycles::CycleSearch;
use crate::machine::{Generation, NodeId};
use crate::seen::event::Origin;

/// The origin of a call, and the worker that makes it.
#[derive(Clone, Default)]
pub(crate) struct Caller {
    pub(crate) origin: Option<Arc<Origin>>,
    /// The worker that was given the handle.
    pub(crate) asker: Option<(NodeId, Generation)>,
}

/// A group of changes, its caller, and how far it has come.
#[derive(Default)]
pub(crate) struct Job {
    pub(super) ops: Ops,
    pub(super) caller: Caller,
    /// The sender of the answer; none if nobody waits for it.
    pub(super) reply: Option<ChangeReply>,
    pub(super) plan: Plan,
    pub(super) faults: Faults,
    /// The workers that the group itself stops.
    pub(super) ending: Vec<(NodeId, Generation)>,
    pub(super) stage: JobStage,
}

/// How far a group has come. The number is the index of the next op.
pub(super) enum JobStage {
    Resolve(usize),
    /// Types are compared.
    Check(usize),
    /// Cycles are searched for.
    Search(CycleSearch),
    Apply(usize),
    /// The graph is changed; the loop starts and stops what it can.
    Settle,
}

impl Default for JobStage {
    fn default() -> Self {
        Self::Resolve(0)
    }
}

impl Job {
    pub(crate) fn new(ops: Ops, caller: Caller) -> Self {
        let (plan, faults, ending) = (Plan::default(), Faults::default(), Vec::new());
        Self { ops, caller, reply: None, plan, faults, ending, stage: JobStage::default() }
    }

    /// Returns a future that waits for the answer.
    pub(super) fn applied(&mut self) -> Applied {
        let (reply, answer) = oneshot::channel();
        self.reply = Some(reply);
        Applied::waiting(answer)
    }
}
