//! Puts on record whom a resource notifies, and what was answered.
//!
//! Invariants:
//! 1. Before a resource acts, the disk has each resource that it notifies, so that no crash between
//!    its action and theirs loses a restart. One may be done that was not needed.
//! 2. A notification is on record until its target has answered it, or has left the site. Its
//!    target need not be among the resources that are applied.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;

use crate::base::text::chain;
use crate::report::observer::{Happened, Observer, What};
use crate::state::{Notification, Position, Record, Records, StoreError};

/// That a resource notifies others if it acts.
#[derive(Debug)]
pub(crate) struct Promise<'a> {
    source: &'a str,
    targets: Vec<Arc<str>>,
    /// Where it is put on record; nowhere if the schedule does that.
    records: Option<&'a Records>,
    is_made: AtomicBool,
    /// Who sees that the resource begins to act, and the event that comes of it.
    seen_by: Option<(&'a dyn Observer, Mutex<Happened>)>,
}

impl<'a> Promise<'a> {
    pub(crate) fn new(records: &'a Records, source: &'a str, targets: Vec<Arc<str>>) -> Self {
        let records = Some(records).filter(|_| !targets.is_empty());
        Self { source, targets, records, is_made: AtomicBool::new(false), seen_by: None }
    }

    /// Returns a promise that the schedule puts on record. An observer sees it being made, with the
    /// event that comes of the action.
    pub(crate) fn scheduled(
        source: &'a str,
        targets: Vec<Arc<str>>,
        (observer, event): (Option<&'a dyn Observer>, Happened),
    ) -> Self {
        let seen_by = observer.map(|observer| (observer, event.into()));
        Self { source, targets, records: None, is_made: AtomicBool::new(false), seen_by }
    }

    /// Says that the next action answers a notification. If it is the first one, that is the event.
    pub(crate) fn refreshes(&self) {
        if let Some((_, event)) = &self.seen_by {
            event.lock().event = What::Refreshed;
        }
    }

    /// Returns the names of those others.
    pub(crate) fn targets(&self) -> &[Arc<str>] {
        &self.targets
    }

    /// Puts it on disk, before the resource acts for the first time.
    pub(crate) async fn make(&self) -> Result<(), StoreError> {
        if !self.is_made.load(Ordering::Relaxed) {
            if let Some(records) = self.records {
                let targets = self.targets.iter().cloned();
                let pending = targets.map(|target| Notification::new(target, self.source));
                records.flush(records.push(pending.map(Record::Pending))).await?;
            }
            if let Some((observer, event)) = &self.seen_by {
                observer.begins(&event.lock());
            }
            self.is_made.store(true, Ordering::Relaxed);
        }
        Ok(())
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

/// Puts on disk what was answered. That this cannot be written costs a restart, and no more.
pub(crate) async fn flush_answers(records: &Records, up_to: Position) {
    if let Err(error) = records.flush(up_to).await {
        let error = chain(&error);
        tracing::warn!(error, "cannot put on disk what was answered; it may be done again");
    }
}
