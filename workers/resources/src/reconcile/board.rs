//! What the resources of one site tell each other.
//!
//! Invariants, each kept in one step under the board's lock:
//! 1. A resource is at work from the moment at which it gets a reason to look, until it has looked.
//!    So a resource that acts later knows of every look that has to come first.
//! 2. A resource that comes to rest, or fails, wakes those that wait for it; they are at work then.
//! 3. A worker that is not the last one of its resource changes nothing here.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::watch;

use crate::context::Notice;
use crate::declaration::Declaration;
use crate::error::BoxError;
use crate::facilities::{Facilities, Promise};
use crate::observer::LastEvent;
use crate::reconcile::flood::Flood;
use crate::reconcile::state::State;
use crate::reconcile::tally::Tallies;
use crate::released::Released;

pub(super) use self::entries::blocker::Blocker;
pub(super) use self::entries::{Ended, Entries, Told};

mod entries;

/// What the resources of one site tell each other: their states, what notifies them, and which of
/// them are not as declared. Cheap to clone; clones are the same board.
///
/// It outlives the workers of the resources: a notification is kept until the resource has done what
/// it means, however often its worker is started meanwhile. Notifications that come before the first
/// was answered are one. Nobody waits to tell something.
#[derive(Clone, Default)]
pub struct Board {
    entries: Arc<Mutex<Entries>>,
    flood: Flood,
    /// The facilities of the site that is kept.
    facilities: Arc<Mutex<Facilities>>,
}

/// Which resources of a site are at work: those that have a reason to look and have not looked yet,
/// and those that [hold up](crate::Resource::holds) the end of a run. Cheap to clone.
///
/// A resource that has failed, or is held back by one that has, is not at work.
#[derive(Debug, Clone)]
pub struct Activity(watch::Receiver<BTreeSet<Arc<str>>>);

impl Activity {
    /// Returns the names of those that are at work; counts them as seen.
    pub fn names(&mut self) -> BTreeSet<Arc<str>> {
        self.0.borrow_and_update().clone()
    }

    /// Returns whether any have begun or ended that were not seen.
    pub fn has_changed(&self) -> bool {
        self.0.has_changed().unwrap_or(false)
    }

    /// Waits until any have begun or ended that were not seen; for ever once the site is no longer
    /// kept. Cancel safe.
    pub async fn changed(&mut self) {
        if self.0.changed().await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}

impl Board {
    /// Takes over the resources of a site with their dependencies, and forgets all others. A resource
    /// that is new here gets the notifications that an earlier agent has left unanswered.
    pub fn connect(&self, declarations: &[Declaration], facilities: &Facilities) {
        self.entries.lock().connect(declarations, facilities.notices());
        *self.facilities.lock() = facilities.clone();
    }

    /// Forgets what is known of resources in whose places others of their names come.
    pub fn forget<'a>(&self, names: impl IntoIterator<Item = &'a str>) {
        let mut entries = self.entries.lock();
        names.into_iter().for_each(|name| entries.forget(name));
    }

    /// Runs `hand_over`, which hands something new to the resources with these names, and has them
    /// look. None of the site's resources acts meanwhile.
    pub fn renew<'a>(&self, names: impl IntoIterator<Item = &'a str>, hand_over: impl FnOnce()) {
        let mut entries = self.entries.lock();
        hand_over();
        for name in names {
            entries.wake(name);
        }
    }

    /// Notifies a resource as another resource that has changed would. The notification is on record before this
    /// returns. Returns whether there is such a resource.
    pub(crate) async fn notify(&self, resource: &str, by: &str) -> Result<bool, BoxError> {
        if !self.entries.lock().has(resource) {
            return Ok(false);
        }
        let facilities = self.facilities.lock().clone();
        let promise = Promise::new(facilities.notices(), by, vec![resource.into()]);
        promise.make().await?;
        promise.keep();
        let notice = Notice::new(by, Vec::new(), Arc::default());
        Ok(self.entries.lock().tell_one(resource, &notice))
    }

    /// Returns which resources are at work.
    pub fn activity(&self) -> Activity {
        Activity(self.entries.lock().at_work())
    }

    /// Returns what tells how the resources have fared.
    pub fn tallies(&self) -> Tallies {
        Tallies::new(self.clone())
    }

    /// Returns the last event of the resource with this name.
    pub fn last_event(&self, resource: &str) -> Option<Arc<LastEvent>> {
        self.entries.lock().last_event(resource)
    }

    /// Notes what is not kept any more.
    pub fn note_released(&self, released: Vec<Released>) {
        self.entries.lock().note_released(released);
    }

    /// Logs how many resources were changed beyond those that the log tells of one by one, which are 100
    /// in a second. Never ends. Cancel safe.
    pub async fn summarize(self) {
        self.flood.summarize().await;
    }

    pub(super) fn flood(&self) -> &Flood {
        &self.flood
    }

    /// Returns the last state of the resource with this name.
    pub(crate) fn last_state(&self, name: &str) -> Option<State> {
        self.entries.lock().state(name)
    }

    /// Does something with all entries in one step.
    pub(super) fn step<T>(&self, step: impl FnOnce(&mut Entries) -> T) -> T {
        step(&mut self.entries.lock())
    }
}

impl fmt::Debug for Board {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.entries.lock().fmt(f)
    }
}
