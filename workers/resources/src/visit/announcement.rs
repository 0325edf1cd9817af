//! Puts on record whom a resource notifies, and what was answered.
//!
//! Invariants:
//! 1. Before a resource acts, the disk has each resource that it notifies, so that no crash between
//!    its action and theirs loses a restart. One may be done that was not needed.
//! 2. A notification is on record until its target has answered it, or has left the site. Its
//!    target need not be among the resources that are applied.

use std::sync::{Arc, OnceLock};

use parking_lot::Mutex;

use crate::base::text::chain;
use crate::declare::kept_thing::KeptThing;
use crate::report::observer::{Event, EventKind};
use crate::state::{Notification, Position, Record, Records};

/// What is put on record before a resource acts for the first time in a visit.
#[derive(Debug)]
pub(crate) struct Announcement {
    /// The names of the others that the resource notifies if it acts.
    targets: Vec<Arc<str>>,
    /// The event that the action leads to, under run. There the schedule puts on record whom the
    /// resource notifies.
    event: Option<Mutex<Event>>,
    /// What the resource keeps, if it has put on record how to put that back.
    reversed: OnceLock<KeptThing>,
    /// Up to where the records are, once it is announced.
    made: OnceLock<Position>,
}

impl Announcement {
    /// Returns the announcement of a resource that notifies these others. Under run its action
    /// leads to an event.
    pub(crate) fn new(targets: Vec<Arc<str>>, event: Option<Event>) -> Self {
        let (reversed, made) = Default::default();
        Self { targets, event: event.map(Mutex::new), reversed, made }
    }

    /// Says that the next action answers a notification. If it is the first one, that is the event.
    pub(crate) fn refreshes(&self) {
        if let Some(event) = &self.event {
            event.lock().event = EventKind::Refreshed;
        }
    }

    /// Returns the names of those others.
    pub(crate) fn targets(&self) -> &[Arc<str>] {
        &self.targets
    }

    /// Returns the event that the action leads to, if somebody may see it.
    pub(crate) fn event(&self) -> Option<Event> {
        self.event.as_ref().map(|event| event.lock().clone())
    }

    /// Returns the records of whom the resource notifies, unless the schedule has them.
    pub(crate) fn notifications(&self, source: &str) -> Vec<Record> {
        let targets = self.targets.iter().filter(|_| self.event.is_none());
        let pending = targets.map(|target| Notification::new(Arc::clone(target), source));
        pending.map(Record::Pending).collect()
    }

    /// Notes that it has put on record how to put this back, which was not on record before.
    pub(crate) fn note_reversal(&self, thing: KeptThing) {
        drop(self.reversed.set(thing));
    }

    /// Returns what the resource keeps, if it has put on record how to put that back.
    pub(crate) fn reversed(&self) -> Option<&KeptThing> {
        self.reversed.get()
    }

    /// Returns up to where records have to be on disk before the resource acts, if it is made.
    pub(crate) fn made(&self) -> Option<Position> {
        self.made.get().copied()
    }

    /// Notes that it is made, by records up to there.
    pub(crate) fn make(&self, records: Position) {
        let _ = self.made.set(records);
    }
}

/// Puts on record that a resource has answered those who have notified it.
pub(crate) async fn acknowledge(records: &Records, target: &str, sources: &[Arc<str>]) {
    if !sources.is_empty() {
        let sources = sources.iter().cloned();
        let answered = sources.map(|source| Notification::new(target, source));
        flush_answers(records, records.push(answered.map(Record::Acknowledged))).await;
    }
}

/// Puts on disk what was answered. If this cannot be written, it costs a restart, and no more.
pub(crate) async fn flush_answers(records: &Records, up_to: Position) {
    if let Err(error) = records.flush(up_to).await {
        let error = chain(&error);
        tracing::warn!(error, "cannot put on disk what was answered; it may be done again");
    }
}
