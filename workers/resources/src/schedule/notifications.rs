//! The pending notifications, by target and source.

use std::collections::BTreeMap;

use super::id::Id;

/// All notifications that are not acknowledged.
#[derive(Debug, Default)]
pub(super) struct Notifications {
    pending: BTreeMap<(Id, Id), Notification>,
    /// How many were sent, so that a visit knows which were sent before it began.
    sent: u64,
}

#[derive(Debug, Clone, Copy, Default)]
struct Notification {
    /// The value of the counter when it was sent last, if it was sent.
    sent: Option<u64>,
    /// The source may act, and has not reported.
    is_expected: bool,
}

impl Notifications {
    /// Returns how many were sent.
    pub(super) fn sent(&self) -> u64 {
        self.sent
    }

    /// Returns all of them, as target and source.
    pub(super) fn pending(&self) -> impl Iterator<Item = (Id, Id)> {
        self.pending.keys().copied()
    }

    pub(super) fn is_sent(&self, target: Id, source: Id) -> bool {
        self.pending.get(&(target, source)).is_some_and(|it| it.sent.is_some())
    }

    /// Returns the sources of those that were sent to a target.
    pub(super) fn sent_to(&self, target: Id) -> impl Iterator<Item = Id> {
        let pending = self.pending.range((target, Id(0))..=(target, Id(usize::MAX)));
        pending.filter(|(_, it)| it.sent.is_some()).map(|((_, source), _)| *source)
    }

    pub(super) fn is_expected(&self, target: Id, source: Id) -> bool {
        self.pending.get(&(target, source)).is_some_and(|it| it.is_expected)
    }

    /// Notes that the source may act. Returns whether the notification is pending only now.
    pub(super) fn expect(&mut self, target: Id, source: Id) -> bool {
        let is_new = !self.pending.contains_key(&(target, source));
        self.pending.entry((target, source)).or_default().is_expected = true;
        is_new
    }

    /// Notes that the source has acted, or may have.
    pub(super) fn send(&mut self, target: Id, source: Id) {
        self.sent += 1;
        let notification = Notification { sent: Some(self.sent), is_expected: false };
        self.pending.insert((target, source), notification);
    }

    /// Notes that the source has not acted. Returns whether the notification is not pending now.
    pub(super) fn withdraw(&mut self, target: Id, source: Id) -> bool {
        let Some(it) = self.pending.get_mut(&(target, source)) else { return false };
        it.is_expected = false;
        self.forget_done(target, source)
    }

    /// Notes that a good visit of the target, which began after so many were sent, has answered the
    /// notification. Returns whether it is not pending any more.
    pub(super) fn acknowledge(&mut self, target: Id, source: Id, began: u64) -> bool {
        let Some(it) = self.pending.get_mut(&(target, source)) else { return false };
        if it.sent.is_none_or(|sent| sent > began) {
            return false;
        }
        it.sent = None;
        self.forget_done(target, source)
    }

    /// Removes a notification, whatever it waits for.
    pub(super) fn forget(&mut self, target: Id, source: Id) {
        self.pending.remove(&(target, source));
    }

    /// Removes a notification that is neither sent nor expected. Returns whether it was one.
    fn forget_done(&mut self, target: Id, source: Id) -> bool {
        let it = self.pending.get(&(target, source));
        let is_done = it.is_some_and(|it| it.sent.is_none() && !it.is_expected);
        if is_done {
            self.pending.remove(&(target, source));
        }
        is_done
    }
}
