//! The machine's knowledge of one resource and its visit.

use super::id::Id;
use super::interface::{Answer, Because, Reason};

/// One resource.
#[derive(Debug, Clone, Default)]
pub(super) struct Node {
    pub(super) has_worker: bool,
    /// Why a visit is to come, if one is.
    pub(super) request: Option<Reason>,
    /// The part of another resource in the request.
    pub(super) because: Option<Because>,
    /// Boxed, as few are visited at a time.
    pub(super) visit: Option<Box<Visit>>,
    pub(super) condition: Condition,
    /// It wanted to act and may not: its visit is requested when nothing that it needs is failing.
    pub(super) is_held_back: bool,
    /// Its last look has failed, and was excused: visits of what it needs were requested. The next
    /// look that fails is not.
    pub(super) is_excused: bool,
    /// It holds up the end of the run.
    pub(super) is_holding: bool,
    /// One pass: it was visited or skipped, so no visit is requested any more.
    pub(super) is_done: bool,
    /// One pass: its group waits for it.
    pub(super) is_awaited: bool,
    /// How many resources directly before it are unsettled.
    pub(super) unsettled_before: usize,
    /// How many of the resources that it needs directly are failing.
    pub(super) failing_needs: usize,
    /// The values that others have counted of it.
    pub(super) shown: Shown,
}

/// The finding of the last visit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Condition {
    /// There was no good visit yet; or the resource had no worker, and there was a request because
    /// of a change.
    #[default]
    Unknown,
    Good,
    Failed,
}

/// A visit under way.
#[derive(Debug, Clone)]
pub(super) struct Visit {
    pub(super) number: u64,
    /// A visit that has asked for an action is one because of a change.
    pub(super) reason: Reason,
    /// It has asked, and waits for the answer.
    pub(super) is_waiting: bool,
    /// It counts as one of those that work.
    pub(super) has_slot: bool,
    /// Something new was sent to the resource since the visit began.
    pub(super) is_outdated: bool,
    /// How many notifications were sent before the visit began.
    pub(super) began: u64,
    /// The sources of the notifications that were delivered to it.
    pub(super) delivered: Vec<Id>,
    /// The resources that it notifies if it acts.
    pub(super) targets: Vec<Id>,
    /// The last answer.
    pub(super) answer: Option<Answer>,
}

/// The values that others count of a resource.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Shown {
    pub(super) is_unsettled: bool,
    pub(super) is_failing: bool,
    pub(super) is_at_work: bool,
    pub(super) is_ready: bool,
}

impl Node {
    /// Returns the values that others should count.
    pub(super) fn shows(&self) -> Shown {
        Shown {
            is_unsettled: self.is_unsettled_itself() || self.unsettled_before > 0,
            is_failing: self.is_failing_itself() || self.failing_needs > 0,
            is_at_work: self.is_holding || self.has_worker && self.has_change(),
            is_ready: self.is_due() && self.unsettled_before == 0,
        }
    }

    /// One pass: notes that no visit of the resource is to come any more.
    pub(super) fn finish(&mut self) {
        (self.is_done, self.is_holding, self.request) = (true, false, None);
    }

    /// Returns whether its last visit has failed, or it has no worker and no good visit behind it.
    pub(super) fn is_failing_itself(&self) -> bool {
        let is_absent = !self.has_worker && self.condition != Condition::Good;
        self.condition == Condition::Failed || is_absent
    }

    /// Returns whether a visit is to begin as soon as nothing before the resource is unsettled.
    fn is_due(&self) -> bool {
        self.has_worker && self.request.is_some() && self.visit.is_none()
    }

    /// Returns whether the resources after it wait for its visit. They do not wait if it has
    /// failed: nobody knows how often it has to be tried again.
    fn is_unsettled_itself(&self) -> bool {
        self.has_worker && self.condition != Condition::Failed && self.has_change()
    }

    /// Returns whether there is a visit because of a change, to come or under way.
    fn has_change(&self) -> bool {
        let is_visited = self.visit.as_ref().is_some_and(|visit| visit.reason == Reason::Change);
        self.request == Some(Reason::Change) || is_visited
    }
}
