//! The queue in front of a store.
//!
//! Invariants:
//! 1. Records are written in the order in which they were pushed. All records of one push are in
//!    one write.
//! 2. A flush returns without an error only when all records up to its position are on disk.
//! 3. At most one write runs at a time. It has all records that wait when it begins, so those who
//!    flush meanwhile share the next one.
//! 4. A record waits until it is written: after an error it is part of the next write, unless a
//!    later record replaces it. The only exception are documents of [`Topic::LastGood`], for which
//!    nobody waits. If a write of such documents fails, they are forgotten. All other records,
//!    also those that remove such documents, are written without them at once. So they hold up no
//!    record that a resource needs before it acts.
//! 5. An error reaches each flush whose position the write had, unless a later write has put them
//!    on disk by then, or only documents were forgotten. If nobody waits, it is logged.
//! 6. What is looked at includes the records that wait, and needs no disk, except for the documents
//!    that are on disk.

use std::sync::Arc;

use parking_lot::Mutex;
use tokio::runtime::Handle;
use tokio::sync::watch;

use crate::base::blocking::blocking;
use crate::base::error::BoxError;
use crate::base::text::chain;
use crate::state::document::Document;
use crate::state::memory::MemoryStore;
use crate::state::record::{Key, Record, Topic, leave_out_optional, remove_replaced};
use crate::state::store::{Loaded, Store, StoreError};

/// The records of the resources: a queue in front of a store. Cheap to clone; clones are the same.
///
/// By default the store is in memory.
#[derive(Debug, Clone)]
pub struct Records {
    shared: Arc<Shared>,
}

/// A place in the order of the records.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Position(u64);

#[derive(Debug)]
struct Shared {
    store: Arc<dyn Store>,
    queue: Mutex<Queue>,
    progress: watch::Sender<Progress>,
    /// Held while a hold of a person is written or forgotten.
    holds: tokio::sync::Mutex<()>,
}

#[derive(Debug, Default)]
struct Queue {
    /// What all records come to, with those that wait.
    loaded: Loaded,
    /// The records that are not on disk.
    waiting: Vec<Record>,
    /// The position of the record that was pushed last.
    last: Position,
    is_writing: bool,
    /// Whether it was said that optional documents cannot be written, since one was.
    is_left_out: bool,
}

/// What the writes have come to.
#[derive(Debug, Default)]
struct Progress {
    /// All records up to here are on disk.
    written: Position,
    /// How many writes have failed.
    failures: u64,
    /// The last one that has.
    failed: Option<FailedWrite>,
}

#[derive(Debug)]
struct FailedWrite {
    up_to: Position,
    error: StoreError,
}

impl Default for Records {
    fn default() -> Self {
        Self::new(Arc::new(MemoryStore::default()), Loaded::default())
    }
}

impl Records {
    /// Returns the records of a store, which has no other user in this process. Blocks for the
    /// disk.
    ///
    /// # Errors
    ///
    /// When the store cannot be read.
    pub fn open(store: Arc<dyn Store>) -> Result<Self, StoreError> {
        let loaded = store.load()?;
        Ok(Self::new(store, loaded))
    }

    fn new(store: Arc<dyn Store>, loaded: Loaded) -> Self {
        let queue = Queue { loaded, ..Queue::default() }.into();
        let (progress, holds) = (watch::Sender::default(), tokio::sync::Mutex::default());
        Self { shared: Arc::new(Shared { store, queue, progress, holds }) }
    }

    /// Appends the records of one step, and returns the position of the last one. In a runtime of
    /// tokio they are written soon, otherwise by the next [`flush`](Self::flush). Does not wait for
    /// the disk.
    pub fn push(&self, records: impl IntoIterator<Item = Record>) -> Position {
        let position = {
            let queue = &mut *self.shared.queue.lock();
            for record in records {
                queue.loaded.add(&record);
                queue.waiting.push(record);
                queue.last.0 += 1;
            }
            queue.last
        };
        self.shared.start();
        position
    }

    /// Waits until all records up to a position are on disk.
    ///
    /// # Errors
    ///
    /// When a write of them has failed. They wait then, and the next push or flush tries again.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future ends the wait. A write that has begun goes on.
    pub async fn flush(&self, position: Position) -> Result<(), StoreError> {
        let mut changes = self.shared.progress.subscribe();
        let failures = changes.borrow_and_update().failures;
        loop {
            {
                let progress = changes.borrow_and_update();
                if progress.written >= position {
                    return Ok(());
                }
                let failed = progress.failed.as_ref().filter(|_| progress.failures > failures);
                if let Some(failed) = failed.filter(|failed| failed.up_to >= position) {
                    return Err(failed.error.clone());
                }
            }
            // Not before: a flush whose write has failed leaves the next try to others.
            self.shared.start();
            // It cannot fail, because the sender is in these records.
            drop(changes.changed().await);
        }
    }

    /// Waits until no other hold of a person is written or forgotten, and keeps others waiting
    /// until the guard is dropped. Cancel safe.
    pub(crate) async fn lock_holds(&self) -> tokio::sync::MutexGuard<'_, ()> {
        self.shared.holds.lock().await
    }

    /// Looks at what all records come to. Other users of the records wait until `look` returns.
    pub fn look<T>(&self, look: impl FnOnce(&Loaded) -> T) -> T {
        look(&self.shared.queue.lock().loaded)
    }

    /// Returns up to where records have to be on disk for a document to be, if it is on record.
    pub fn position_of(&self, key: &Key) -> Option<Position> {
        let queue = self.shared.queue.lock();
        let is_of = |it: &Record| matches!(it, Record::Stored { key: of, .. } if of == key);
        let waits = queue.waiting.iter().any(is_of);
        let position = if waits { queue.last } else { Position::default() };
        queue.loaded.documents.contains(key).then_some(position)
    }

    /// Returns a document, if it is on record.
    ///
    /// # Errors
    ///
    /// When the store cannot be read.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe.
    pub async fn document(&self, key: &Key) -> Result<Option<Document>, BoxError> {
        {
            let queue = self.shared.queue.lock();
            if !queue.loaded.documents.contains(key) {
                return Ok(None);
            }
            let waiting = queue.waiting.iter().rev().find_map(|record| match record {
                Record::Stored { key: of, document } if of == key => Some(document.clone()),
                _ => None,
            });
            if waiting.is_some() {
                return Ok(waiting);
            }
        }
        if !self.shared.store.is_blocking() {
            return Ok(self.shared.store.document(key)?);
        }
        let (store, key) = (Arc::clone(&self.shared.store), key.clone());
        blocking(move || store.document(&key)).await
    }
}

impl Queue {
    /// Forgets the documents that nobody needs, because a write with them has failed. Returns
    /// whether there were any.
    fn leave_out(&mut self, error: &StoreError) -> bool {
        let left_out = leave_out_optional(&mut self.waiting);
        for key in &left_out {
            self.loaded.documents.remove(key);
        }
        if !left_out.is_empty() && !self.is_left_out {
            self.is_left_out = true;
            let error = chain(error);
            tracing::warn!(error, "cannot put on disk how resources are when they are good");
        }
        !left_out.is_empty()
    }
}

impl Shared {
    /// Begins to write what waits, unless a write runs.
    fn start(self: &Arc<Self>) {
        if !self.store.is_blocking() {
            if let Some(writing) = Writing::begin(self) {
                writing.run();
            }
        } else if let Ok(runtime) = Handle::try_current()
            && let Some(writing) = Writing::begin(self)
        {
            drop(runtime.spawn_blocking(|| writing.run()));
        }
    }

    /// Notes how a write of the first `count` records that wait has ended. Returns whether another
    /// one has to follow.
    fn note(&self, written: Result<(), StoreError>, (count, up_to): (usize, Position)) -> bool {
        let queue = &mut *self.queue.lock();
        let nobody_waits = self.progress.receiver_count() == 0;
        match written {
            Ok(()) => {
                let is_optional = queue.waiting.drain(..count).any(|record| {
                    matches!(record, Record::Stored { key, .. } if key.topic == Topic::LastGood)
                });
                queue.is_left_out &= !is_optional;
                queue.is_writing = !queue.waiting.is_empty();
                self.progress.send_modify(|progress| progress.written = up_to);
            }
            // Without a count nobody goes on.
            Err(error) if count > 0 && queue.leave_out(&error) => {
                queue.is_writing = !queue.waiting.is_empty();
                if !queue.is_writing {
                    self.progress.send_modify(|progress| progress.written = queue.last);
                }
            }
            Err(error) => {
                // Otherwise a disk that is full for long would fill the memory.
                remove_replaced(&mut queue.waiting);
                // What was pushed meanwhile was not tried.
                queue.is_writing = queue.last > up_to;
                if nobody_waits {
                    let error = chain(&error);
                    tracing::warn!(
                        error,
                        "cannot put on disk what is on record; it is tried again"
                    );
                }
                self.progress.send_modify(|progress| {
                    progress.failures += 1;
                    progress.failed = Some(FailedWrite { up_to, error });
                });
            }
        }
        queue.is_writing
    }
}

/// The right to write, until it is dropped.
struct Writing {
    shared: Arc<Shared>,
    is_over: bool,
}

/// Why a write has no result.
#[derive(Debug, thiserror::Error)]
#[error("the write of records has panicked, or was not begun because the runtime has ended")]
struct UnfinishedError;

impl Writing {
    fn begin(shared: &Arc<Shared>) -> Option<Self> {
        let queue = &mut *shared.queue.lock();
        if queue.is_writing || queue.waiting.is_empty() {
            return None;
        }
        queue.is_writing = true;
        Some(Self { shared: Arc::clone(shared), is_over: false })
    }

    fn run(mut self) {
        while !self.is_over {
            let (records, up_to) = {
                let queue = self.shared.queue.lock();
                (queue.waiting.clone(), queue.last)
            };
            let written = self.shared.store.write(&records);
            self.is_over = !self.shared.note(written, (records.len(), up_to));
        }
    }
}

impl Drop for Writing {
    fn drop(&mut self) {
        if !self.is_over {
            // All who wait hear of it, because nobody goes on.
            let up_to = Position(u64::MAX);
            self.shared.note(Err(StoreError::new(UnfinishedError)), (0, up_to));
        }
    }
}

#[cfg(test)]
mod tests;
