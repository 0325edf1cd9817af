//! The notes in memory, in front of the store.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::watch;
use tokio::task::spawn_blocking;

use crate::{BoxError, Record, Store};

/// All notes. A clone sees the same ones.
#[derive(Debug, Clone)]
pub struct Cache {
    store: Store,
    notes: Arc<Mutex<Notes>>,
    added: watch::Sender<u64>,
}

/// A note that the poller has not seen yet.
#[derive(Debug, Clone, PartialEq)]
pub struct Note {
    /// Whose note it is.
    pub tenant: String,
    /// What it says.
    pub text: String,
}

#[derive(Debug, Default)]
struct Notes {
    of: HashMap<String, Vec<String>>,
    fresh: VecDeque<Note>,
}

impl Notes {
    fn apply(&mut self, record: Record) {
        match record {
            Record::Added { tenant, text } => self.of.entry(tenant).or_default().push(text),
            Record::Swept { tenant, kept } => {
                let notes = self.of.entry(tenant).or_default();
                notes.drain(..notes.len().saturating_sub(kept));
            }
        }
    }
}

impl Cache {
    /// Reads all that the store has. Blocks.
    ///
    /// # Errors
    ///
    /// When the store cannot be read.
    pub fn load(store: Store) -> Result<Self, BoxError> {
        let mut notes = Notes::default();
        store.records()?.into_iter().for_each(|record| notes.apply(record));
        Ok(Self { store, notes: Arc::new(Mutex::new(notes)), added: watch::Sender::new(0) })
    }

    /// Returns the notes of a tenant, the oldest first.
    pub fn notes(&self, tenant: &str) -> Vec<String> {
        self.notes.lock().of.get(tenant).cloned().unwrap_or_default()
    }

    /// Adds a note; it is on the disk when this returns.
    ///
    /// # Errors
    ///
    /// When the store cannot be written.
    pub async fn add(&self, note: Note) -> Result<(), BoxError> {
        let Note { tenant, text } = note.clone();
        self.record(Record::Added { tenant, text }).await?;
        self.notes.lock().fresh.push_back(note);
        self.added.send_modify(|added| *added += 1);
        Ok(())
    }

    /// Drops all but the newest notes of a tenant.
    ///
    /// # Errors
    ///
    /// When the store cannot be written.
    pub async fn keep(&self, tenant: &str, kept: usize) -> Result<(), BoxError> {
        if self.notes(tenant).len() <= kept {
            return Ok(());
        }
        self.record(Record::Swept { tenant: tenant.to_owned(), kept }).await
    }

    /// Takes a note that was added since the last one was taken.
    pub fn take_fresh(&self) -> Option<Note> {
        self.notes.lock().fresh.pop_front()
    }

    /// Returns what changes with each added note.
    pub fn added(&self) -> watch::Receiver<u64> {
        self.added.subscribe()
    }

    async fn record(&self, record: Record) -> Result<(), BoxError> {
        let (store, notes) = (self.store.clone(), Arc::clone(&self.notes));
        spawn_blocking(move || {
            store.append(&record)?;
            notes.lock().apply(record);
            Ok(())
        })
        .await?
    }
}
