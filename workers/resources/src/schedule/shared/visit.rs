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
    /// What the resource was notified of and has not answered, in order of the names.
    pub(crate) notices: Vec<Notice>,
    /// What another resource has to do with it, if that is the first reason for the visit.
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
    /// What those are told that it notifies.
    pub(crate) notice: Notice,
}

/// What follows from a report.
#[derive(Debug)]
pub(crate) struct Consequence {
    pub(crate) stands: AfterVisit,
    /// Up to where records are to be written because of it.
    pub(crate) records: Position,
}

/// How a resource stands after a visit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum AfterVisit {
    /// As the visit has ended.
    Counted,
    /// It must not act, because this resource has failed.
    HeldBack(Arc<str>),
    /// Another visit follows after one of a resource before it.
    Waits,
}
