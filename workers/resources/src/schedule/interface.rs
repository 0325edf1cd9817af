//! The questions and commands between the driver and the machine.

use super::id::Id;

/// The most visits of a site that is kept which work at a time. A visit takes about 10 KB, and all
/// resources are visited at the start. It is many times what a machine does at once, so visits that
/// hang do not soon keep others from their slots.
const KEPT_SLOTS: usize = 500;

/// One visit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Ticket {
    /// The number of the visit, among all visits of the machine.
    pub(super) number: u64,
    /// The resource that is visited.
    pub(crate) id: Id,
}

/// The differences of the modes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Policy {
    /// The most visits that work at a time: that do not wait for an answer or for another visit.
    pub(crate) slots: usize,
    /// Each resource is visited once, and is skipped if something that it needs is failing.
    pub(crate) is_one_pass: bool,
}

impl Policy {
    /// Returns the policy of one pass over all resources.
    pub(crate) fn pass(slots: usize) -> Self {
        Self { slots, is_one_pass: true }
    }

    /// Returns the policy of a site that is kept as declared.
    pub(crate) fn keep() -> Self {
        Self { slots: KEPT_SLOTS, is_one_pass: false }
    }
}

/// Why a visit is requested.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Reason {
    /// It is time to look. Nobody waits for the visit until it asks for an action.
    Routine,
    /// The resource may have changed, or is to be changed.
    Change,
}

/// The part of another resource in the request of a visit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Because {
    /// This resource, which the visited one needs, has a new state.
    NewState(Id),
    /// This resource, which the visited one needs at any distance, was repaired.
    Repaired(Id),
    /// This resource, which needs the visited one, could not be looked at.
    LookFailed(Id),
}

impl Because {
    /// Returns the number of the other resource.
    pub(super) fn id(self) -> Id {
        match self {
            Self::NewState(id) | Self::Repaired(id) | Self::LookFailed(id) => id,
        }
    }
}

/// A command to the driver. The driver carries commands out in their order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Command {
    /// Visit a resource.
    Visit {
        /// The visit.
        ticket: Ticket,
        /// The sources of the notifications that are delivered to it.
        delivered: Vec<Id>,
        /// The part of another resource in it, if that is the first reason for the visit.
        because: Option<Because>,
    },
    /// The answer to visits that have asked for an action.
    Answer {
        /// With [`Answer::Act`] the first of them acts for all. The others ask again when it has
        /// acted, to go on.
        tickets: Vec<Ticket>,
        /// The answer.
        answer: Answer,
    },
    /// The pass does not visit a resource: something that it needs is failing.
    Skip {
        /// The resource.
        id: Id,
    },
    /// Add this to the store.
    Write(Record),
    /// Wake the visit of a resource, if it waits for something of its own: something new was sent
    /// to the resource.
    Wake {
        /// The resource.
        id: Id,
    },
}

/// Whether a visit may act.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Answer {
    /// Act, as soon as all records that were commands before are on disk.
    Act,
    /// Something before the resource is unsettled, or something new was sent to it. End the visit;
    /// another one follows.
    Again,
    /// Something that the resource needs is failing. End the visit; another one follows when that
    /// is repaired.
    HeldBack,
    /// End the visit: it was given up, or told to stop. The machine itself does not answer so.
    Halted,
}

/// A change of the notifications that outlive the process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Record {
    /// `source` may act from now on, and notifies `target`.
    Pending { target: Id, source: Id },
    /// `target` has acknowledged the notification, or `source` has not acted.
    Acknowledged { target: Id, source: Id },
}

/// How a visit has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Ending {
    /// Its outcome.
    pub(crate) outcome: Outcome,
    /// Whether an action has begun.
    pub(crate) has_acted: bool,
    /// Whether the resource has a new state. The state was published before.
    pub(crate) has_new_state: bool,
    /// Whether the resource holds up the end of the run.
    pub(crate) is_holding: bool,
}

impl Ending {
    /// Returns the ending of a visit that has not acted and found no new state.
    pub(crate) fn new(outcome: Outcome) -> Self {
        Self { outcome, has_acted: false, has_new_state: false, is_holding: false }
    }
}

/// The outcome of a visit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// The resource is as declared. In a plan: it is, or would be.
    Good,
    /// The resource is not as declared, and is declared to be left alone.
    LeftAlone,
    /// The visit could not look at the resource, or its config is wrong.
    CannotLook,
    /// The visit could not look at the resource as it is to be, or its new config is wrong. It is
    /// as it was declared before, so it holds back nobody.
    KeptAsBefore,
    /// An action has failed, or has not repaired the resource.
    Failed,
    /// The visit was interrupted, its change was not approved, or a state that it needs will not be
    /// known.
    Stopped,
    /// The answer of the machine was not [`Answer::Act`].
    NotAllowed,
}

impl Outcome {
    /// Returns whether others may rely on the resource.
    pub(crate) fn is_good(self) -> bool {
        matches!(self, Self::Good | Self::LeftAlone | Self::KeptAsBefore)
    }
}

/// The effect of a report.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reported {
    /// It counts.
    Counted,
    /// It does not count: another visit follows, for a reason that lies before the resource.
    Excused,
    /// The visit was given up before.
    Ignored,
}

/// The standing of a resource, for reports.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Standing {
    /// Its last visit was good.
    Good,
    /// A visit because of a change is to come or under way, or the resource holds up the end of the
    /// run.
    AtWork,
    /// Its last visit has failed.
    Failed,
    /// It wants to act, and this resource keeps it from that.
    HeldBack(Id),
    /// It has no worker.
    Absent,
}
