//! The entries of the resources of a schedule, and their numbers.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use tokio::sync::Notify;

use crate::report::tally::Count;
use crate::schedule::Id;
use crate::schedule::shared::visit::BegunVisit;
use crate::schedule::state::State;

/// The entries of a schedule. A number is used again when nothing refers to the old entry by it any
/// more.
#[derive(Debug, Default)]
pub(super) struct Entries {
    by_name: HashMap<Arc<str>, Id>,
    entries: Vec<Entry>,
    free: BTreeSet<usize>,
}

/// The entry of one resource, or of a rule that notifies one.
#[derive(Debug)]
pub(super) struct Entry {
    pub(super) name: Arc<str>,
    /// Whether it is a resource of the site.
    pub(super) is_resource: bool,
    /// Whether it has left the manifest, and is in the site only to be put back.
    pub(super) is_put_back: bool,
    /// The number of the worker that keeps it, if one does.
    pub(super) worker: Option<u64>,
    /// Whether it has had a worker, and the last one was not told to stop during a visit.
    pub(super) was_started: bool,
    /// The resources that wait for its start before they may act.
    pub(super) awaited_by: BTreeSet<Id>,
    /// How many of the resources that it needs have no state yet.
    pub(super) missing: usize,
    /// Wakes the worker when its visit is there or outdated. Each worker has its own.
    pub(super) wake: Arc<Notify>,
    /// The sources of the notifications that were delivered to its last visit.
    pub(super) delivered: Vec<Id>,
    /// The visit that its worker has not taken yet. Boxed, as few have one at a time.
    pub(super) visit: Option<Box<BegunVisit>>,
    pub(super) state: Option<State>,
    /// Why it was held back when it last wanted to act, until a visit of it counts: this resource
    /// had failed. Unlike its standing it stays while that one is tried again.
    pub(super) held_back_by: Option<Arc<str>>,
    pub(super) count: Count,
}

impl Entry {
    fn new(name: Arc<str>) -> Self {
        Self {
            name,
            is_resource: false,
            is_put_back: false,
            worker: None,
            was_started: false,
            awaited_by: BTreeSet::new(),
            missing: 0,
            wake: Arc::default(),
            visit: None,
            delivered: Vec::new(),
            state: None,
            held_back_by: None,
            count: Count::default(),
        }
    }

    /// Forgets the resource, because another one of its name takes its place. The count goes on,
    /// and those that wait for its start wait for the start of the new one.
    pub(super) fn forget(&mut self) {
        let count = std::mem::take(&mut self.count);
        let awaited_by = std::mem::take(&mut self.awaited_by);
        let new = Self::new(Arc::clone(&self.name));
        let (is_resource, is_put_back) = (self.is_resource, self.is_put_back);
        *self = Self { is_resource, is_put_back, count, awaited_by, ..new };
    }

    /// Returns whether only its start is missing.
    pub(super) fn is_starting(&self) -> bool {
        self.is_resource && !self.was_started && self.missing == 0
    }
}

impl Entries {
    /// Returns the number of a name, which it has from now on.
    pub(super) fn number(&mut self, name: &str) -> Id {
        if let Some(id) = self.by_name.get(name) {
            return *id;
        }
        let name: Arc<str> = name.into();
        let id = Id(self.free.pop_first().unwrap_or(self.entries.len()));
        let entry = Entry::new(Arc::clone(&name));
        match self.entries.get_mut(id.0) {
            Some(free) => *free = entry,
            None => self.entries.push(entry),
        }
        self.by_name.insert(name, id);
        id
    }

    /// Returns the number of a resource.
    pub(super) fn resource(&self, name: &str) -> Option<Id> {
        self.by_name.get(name).copied().filter(|id| self.get(*id).is_resource)
    }

    /// Ends the waits of resources that have left the site: their numbers may soon mean others.
    pub(super) fn end_waits_of_others(&mut self) {
        let resources: BTreeSet<Id> = self.resources().into_iter().collect();
        for entry in &mut self.entries {
            entry.awaited_by.retain(|id| resources.contains(id));
        }
    }

    /// Returns the numbers of all resources.
    pub(super) fn resources(&self) -> Vec<Id> {
        let ids = self.by_name.values().copied();
        ids.filter(|id| self.get(*id).is_resource).collect()
    }

    pub(super) fn get(&self, id: Id) -> &Entry {
        &self.entries[id.0]
    }

    pub(super) fn get_mut(&mut self, id: Id) -> &mut Entry {
        &mut self.entries[id.0]
    }

    pub(super) fn name(&self, id: Id) -> Arc<str> {
        Arc::clone(&self.get(id).name)
    }

    /// Frees the numbers that belong to no resource and to which nothing refers.
    pub(super) fn free(&mut self, is_meant: impl Fn(Id) -> bool) {
        let Self { by_name, entries, free } = self;
        by_name.retain(|_, id| {
            let is_used = entries[id.0].is_resource || is_meant(*id);
            if !is_used {
                free.insert(id.0);
            }
            is_used
        });
    }
}
