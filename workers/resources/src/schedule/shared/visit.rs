//! A worker in the schedule, and a visit from its begin to its end.

use std::sync::Arc;

use tokio::sync::Notify;

use crate::kind::context::Notice;
use crate::schedule::cause::Why;
use crate::schedule::state::State;
use crate::schedule::{Id, Outcome, Ticket};
use crate::state::Position;

/// The place of a worker in the schedule.
#[derive(Debug)]
pub(crate) struct Place {
    pub(crate) id: Id,
    /// The number of the worker.
    pub(crate) worker: u64,
    pub(crate) wake: Arc<Notify>,
}

/// A visit that begins.
#[derive(Debug)]
pub(crate) struct BegunVisit {
    pub(crate) ticket: Ticket,
    /// The notices that the resource got and has not answered, in the order of the names.
    pub(crate) notices: Vec<Notice>,
    /// The part of another resource in it, if that is the first reason for the visit.
    pub(crate) because: Option<Why>,
}

/// How a visit has ended.
#[derive(Debug)]
pub(crate) struct VisitReport {
    pub(crate) ticket: Ticket,
    pub(crate) outcome: Outcome,
    /// Whether an action has begun.
    pub(crate) has_acted: bool,
    /// Whether it holds up the end of the run.
    pub(crate) is_holding: bool,
    /// The state that others may see.
    pub(crate) state: Option<State>,
    /// The notice for the resources that it notifies.
    pub(crate) notice: Notice,
}

/// The consequence of a report.
#[derive(Debug)]
pub(crate) struct Consequence {
    pub(crate) stands: AfterVisit,
    /// The position up to which records are to be written because of it.
    pub(crate) records: Position,
}

/// The standing of a resource after a visit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum AfterVisit {
    /// As the visit has ended.
    Counted,
    /// It must not act, because this resource has failed.
    HeldBack(Arc<str>),
    /// Another visit follows after one of a resource before it.
    Waits,
}
