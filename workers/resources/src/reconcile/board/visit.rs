//! A worker at the board, and a visit from its begin to its end.

use std::sync::Arc;

use tokio::sync::Notify;

use crate::context::Notice;
use crate::reconcile::cause::Why;
use crate::reconcile::state::State;
use crate::schedule::{Id, Outcome, Ticket};
use crate::state::Position;

/// The place of a worker at the board.
#[derive(Debug)]
pub(in crate::reconcile) struct Place {
    pub(in crate::reconcile) id: Id,
    /// The number of the worker.
    pub(in crate::reconcile) worker: u64,
    pub(in crate::reconcile) wake: Arc<Notify>,
}

/// A visit that begins.
#[derive(Debug)]
pub(in crate::reconcile) struct BegunVisit {
    pub(in crate::reconcile) ticket: Ticket,
    /// What the resource was notified of and has not answered, in order of the names.
    pub(in crate::reconcile) notices: Vec<Notice>,
    /// What another resource has to do with it, if that is the first reason for the visit.
    pub(in crate::reconcile) because: Option<Why>,
}

/// How a visit has ended.
#[derive(Debug)]
pub(in crate::reconcile) struct Closing {
    pub(in crate::reconcile) ticket: Ticket,
    pub(in crate::reconcile) outcome: Outcome,
    /// Whether an action has begun.
    pub(in crate::reconcile) has_acted: bool,
    /// Whether it holds up the end of the run.
    pub(in crate::reconcile) is_holding: bool,
    /// The state that others may see.
    pub(in crate::reconcile) state: Option<State>,
    /// What those are told that it notifies.
    pub(in crate::reconcile) notice: Notice,
}

/// What follows from a report.
#[derive(Debug)]
pub(in crate::reconcile) struct Followed {
    pub(in crate::reconcile) stands: Stands,
    /// Up to where records are to be written because of it.
    pub(in crate::reconcile) records: Position,
}

/// How a resource stands after a visit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::reconcile) enum Stands {
    /// As the visit has ended.
    Counted,
    /// It must not act, because this resource has failed.
    HeldBack(Arc<str>),
    /// Another visit follows after one of a resource before it.
    Waits,
}
