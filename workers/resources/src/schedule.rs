//! The schedule of visits: the order of the visits, and the permissions to act.
//!
//! Plan, apply and run do one thing: they *visit* resources. A visit looks at a resource, asks
//! before each action, and reports how it has ended. [`Machine`] decides all of that. It is pure:
//! events in, commands out. It knows no clock, task, value or file. The driver keeps it under one
//! lock. It tells the machine one or more events, and then takes all commands: that is one *step*
//! of the schedule.
//!
//! # Words
//!
//! - A visit is *requested* with a reason: a *change*, if the resource may have changed or is to be
//!   changed, or *routine*, if it is only time to look.
//! - A resource is *unsettled* while it, or something before it, has a visit because of a change
//!   to come or under way. A resource that has failed is not: its next visits hold up nobody.
//! - A resource is *good* after a good visit, until a visit fails, or until it has no worker while
//!   a visit is requested because of a change. A visit that is given up is requested again with its
//!   reason. The reason of a visit that has asked is a change.
//! - A resource is *failing itself* if its last visit has failed, or if it has no worker and is not
//!   good. It is *failing* if it, or something that it needs, is failing itself.
//! - *Before* a resource is what it needs, and what notifies it, at any distance.
//! - A notification is *pending* from the permission to act until it is acknowledged. It is *sent*
//!   when a visit ends in which an action has begun, also if the action has failed or the worker
//!   has disappeared. That of a rule is pending and sent at once. It is *delivered* to the next
//!   visit of its target when its source is good. It is *acknowledged* by a good visit to which it
//!   was delivered, or by one that has started its program anew and waits until that is ready.
//!
//! # Invariants
//!
//! The machine decides each visit and each answer when the driver takes it, after all events of the
//! step.
//!
//! - **I1**: the counters of the machine agree with a count from scratch.
//! - **I2**: a visit begins only while nothing before its resource is unsettled.
//! - **I3**: an action begins only while nothing before its resource is unsettled, nothing that the
//!   resource needs is failing, and nothing new was sent to the resource since its visit began.
//! - **I4**: a resource has one visit at a time. The reports of a visit that was given up have no
//!   effect.
//! - **I5**: a resource whose visit is requested is visited, or waits for a visit that has to come
//!   first; unless it has no worker. Without further events everything comes to rest.
//! - **I6**: the record of a pending notification is among the commands before the permission to
//!   act, or among those of the step in which a rule sends it. It is struck off only when the
//!   notification is acknowledged, or when nothing was begun.
//! - **I7**: a notification is delivered as soon as its source is good, and not before. It is
//!   acknowledged only by a visit that began after it was sent, and that is good or has done what
//!   it means.
//! - **I8**: in one pass a resource has at most one visit, and none if something that it needs is
//!   failing.
//! - **I9**: one action may be for a group: visits of one kind, depth and key that have asked, and
//!   that may all act. No path joins two of them. In one pass a group waits until every resource of
//!   its kind and depth has asked or ended. Otherwise nobody waits for another one to ask: a group
//!   consists of those that ask before the driver takes the answer of the first, and no question is
//!   left open when the driver has taken all commands, unless it waits for a slot.
//! - **I10**: each visit that works has a slot: no visit begins, and none is answered, while no
//!   slot is free. A visit that waits for its answer, or for one that acts for it too, does not
//!   work.
//! - **I11**: a resource that is held back names one that it needs, at any distance, and that is
//!   failing itself.

pub(crate) mod asking;
pub(crate) mod cause;
pub(crate) mod declared;
mod graph;
mod groups;
pub(crate) mod handle;
mod id;
mod interface;
mod machine;
mod node;
mod notifications;
pub(crate) mod pace;
pub(crate) mod repairs;
pub(crate) mod retry_state;
pub(crate) mod shared;
pub(crate) mod state;

#[cfg(test)]
mod tests;

#[cfg(test)]
pub(crate) use self::graph::CycleError;
pub(crate) use self::graph::{Graph, GraphBuilder};
pub(crate) use self::id::Id;
pub(crate) use self::interface::{
    Answer, Because, Command, Ending, Outcome, Policy, Reason, Record, Reported, Standing, Ticket,
};
pub(crate) use self::machine::Machine;
