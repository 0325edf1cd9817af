//! The contract of a store.

use std::collections::{BTreeMap, BTreeSet};
use std::error::Error;
use std::fmt;
use std::sync::Arc;

use crate::state::document::Document;
use crate::state::record::{Keep, Key, Notification, Record};

/// Keeps what all records come to.
///
/// # Guarantees
///
/// - One process writes at a time. Another process may read meanwhile.
/// - [`write`](Self::write) is called by one thread at a time. The other methods may be called at
///   the same time.
/// - After an error the same records are written again, some of them replaced by later ones.
///
/// # Requirements
///
/// - When `write` returns without an error, all its records are on disk: no crash of the machine
///   loses them. When it returns with an error, none of them is there, or all are.
/// - After a crash at any instant the store has what the records of some first calls of `write`
///   come to, and no part of a call.
/// - While nothing can be written, because the disk is full or read-only, it can be read.
pub trait Store: fmt::Debug + Send + Sync {
    /// Returns what all records come to, without the texts of documents.
    ///
    /// # Errors
    ///
    /// When the store cannot be read.
    fn load(&self) -> Result<Loaded, StoreError>;

    /// Returns a document, if it is on record.
    ///
    /// # Errors
    ///
    /// When the store cannot be read.
    fn document(&self, key: &Key) -> Result<Option<Document>, StoreError>;

    /// Writes records, in this order: all or none of them. They are on disk when it returns.
    ///
    /// # Errors
    ///
    /// When the store cannot be written, such as on a full disk.
    fn write(&self, records: &[Record]) -> Result<(), StoreError>;

    /// Returns whether a call may wait for a disk. Then it is made on a thread that may block. By
    /// default it may.
    fn is_blocking(&self) -> bool {
        true
    }
}

/// Why a store cannot be read or written. Cheap to clone: many may wait for one write.
#[derive(Debug, Clone, thiserror::Error)]
#[error(transparent)]
pub struct StoreError(Arc<dyn Error + Send + Sync>);

impl StoreError {
    /// Returns the error of a store with this cause.
    pub fn new(cause: impl Error + Send + Sync + 'static) -> Self {
        Self(Arc::new(cause))
    }
}

/// What all records come to.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Loaded {
    /// The notifications that are not acknowledged.
    pub pending: BTreeSet<Notification>,
    /// The resources that the site keeps, by their names.
    pub kept: BTreeMap<Arc<str>, Keep>,
    /// The keys of the documents.
    pub documents: BTreeSet<Key>,
}

impl Loaded {
    /// Returns the kind of a resource that the site keeps.
    pub(crate) fn kind_of(&self, resource: &str) -> Option<String> {
        self.kept.get(resource).map(|keep| keep.kind.clone())
    }

    /// Returns the sources of the notifications that a resource has not acknowledged, in the order
    /// of the names.
    pub fn sources(&self, target: &str) -> Vec<Arc<str>> {
        let from = self.pending.range(Notification::new(target, "")..);
        from.take_while(|it| &*it.target == target).map(|it| Arc::clone(&it.source)).collect()
    }

    /// Changes it as a record says.
    pub fn add(&mut self, record: &Record) {
        match record {
            Record::Pending(notification) => {
                self.pending.insert(notification.clone());
            }
            Record::Acknowledged(notification) => {
                self.pending.remove(notification);
            }
            Record::Kept { resource, keep } => {
                self.kept.insert(Arc::clone(resource), keep.clone());
            }
            Record::Released { resource } => {
                self.kept.remove(resource);
            }
            Record::Stored { key, .. } => {
                self.documents.insert(key.clone());
            }
            Record::Removed { key } => {
                self.documents.remove(key);
            }
        }
    }
}
