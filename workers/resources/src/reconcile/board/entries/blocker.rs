//! What a resource waits for before it may act.

use std::collections::{HashSet, VecDeque};
use std::sync::Arc;

use crate::reconcile::board::entries::{Entries, Entry, Standing};

/// Why a resource must not act.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::reconcile) struct Blocker {
    /// The resource to wait for.
    pub(in crate::reconcile) name: Arc<str>,
    /// The resource that has failed: the blocker, or one before it. None while the blocker is at
    /// work.
    pub(in crate::reconcile) failed: Option<Arc<str>>,
}

impl Entries {
    /// Has a resource wait for what keeps it from acting, if that is still so. If it is not, the
    /// resource is woken.
    pub(in crate::reconcile) fn hold(&mut self, name: &str) -> Option<Blocker> {
        let Some(blocker) = self.blocker(name) else {
            self.wake(name);
            return None;
        };
        self.await_one(name, &blocker.name);
        let standing = match blocker.failed.clone() {
            Some(failed) => {
                self.edit(name, |entry| entry.held_back_by = Some(Arc::clone(&failed)));
                Standing::HeldBack(failed)
            }
            None => Standing::Waiting,
        };
        self.set(name, standing);
        Some(blocker)
    }

    /// Returns what keeps a resource from acting: a resource before it that is at work or, among those
    /// that it depends on, one that has failed.
    pub(in crate::reconcile) fn blocker(&self, name: &str) -> Option<Blocker> {
        let own = self.by_name.get(name)?;
        if self.unsettled == usize::from(own.standing != Standing::AtRest) {
            return None;
        }
        let inputs = |entry: &Entry| [entry.needs.clone(), entry.notified_by.clone()].concat();
        let at_work = self.nearest(own, inputs, |name, entry| {
            let is_awaited = matches!(entry.standing, Standing::AtWork | Standing::Waiting);
            is_awaited.then(|| Blocker { name: Arc::clone(name), failed: None })
        });
        let needs = |entry: &Entry| entry.needs.clone();
        let failed = || {
            self.nearest(own, needs, |name, entry| {
                let failed = match &entry.standing {
                    Standing::Failed => name,
                    Standing::HeldBack(by) => by,
                    _ => return None,
                };
                Some(Blocker { name: Arc::clone(name), failed: Some(Arc::clone(failed)) })
            })
        };
        let new = || {
            self.nearest(own, needs, |name, entry| {
                let is_new = entry.standing == Standing::New;
                is_new.then(|| Blocker { name: Arc::clone(name), failed: None })
            })
        };
        at_work.or_else(failed).or_else(new)
    }

    /// Looks for something among the resources before one, the nearest first.
    fn nearest<T>(
        &self,
        from: &Entry,
        links: impl Fn(&Entry) -> Vec<Arc<str>>,
        find: impl Fn(&Arc<str>, &Entry) -> Option<T>,
    ) -> Option<T> {
        let mut queue = VecDeque::from(links(from));
        let mut seen: HashSet<Arc<str>> = queue.iter().cloned().collect();
        while let Some(name) = queue.pop_front() {
            let Some(entry) = self.by_name.get(&name) else { continue };
            if let Some(found) = find(&name, entry) {
                return Some(found);
            }
            queue.extend(links(entry).into_iter().filter(|name| seen.insert(Arc::clone(name))));
        }
        None
    }

    /// Wakes a resource that has waited, unless there is another one to wait for: it looks once, and
    /// not once for each.
    pub(super) fn release(&mut self, name: &str) {
        let next = self.blocker(name).filter(|next| next.failed.is_none());
        match next.filter(|_| self.stands(name, &Standing::Waiting)) {
            Some(next) => self.await_one(name, &next.name),
            None => self.wake(name),
        }
    }

    fn await_one(&mut self, name: &str, awaited: &str) {
        if let Some((waiting, awaited)) = self.names(name, awaited) {
            self.edit(&awaited, |entry| entry.awaited_by.insert(waiting));
        }
    }
}
