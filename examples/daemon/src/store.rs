//! The file that holds all notes.

use std::fs::{File, OpenOptions};
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::Path;
use std::sync::Arc;

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};

use crate::BoxError;

/// A file of records, each on a line of its own. One process opens it at a time, and once.
#[derive(Debug, Clone)]
pub struct Store(Arc<Mutex<File>>);

/// What happened to the notes of a tenant.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Record {
    /// A note was added.
    Added {
        /// Whose note it is.
        tenant: String,
        /// What it says.
        text: String,
    },
    /// All but the newest notes were dropped.
    Swept {
        /// Whose notes they were.
        tenant: String,
        /// How many were kept.
        kept: usize,
    },
}

impl Store {
    /// Opens a store, or makes it. What a crash has left of a last record is cut off.
    ///
    /// # Errors
    ///
    /// When the file cannot be opened, or is open elsewhere.
    pub fn open(path: &Path) -> Result<Self, BoxError> {
        let cannot =
            |error: &dyn std::fmt::Display| format!("cannot open the store {path:?}: {error}");
        let mut options = OpenOptions::new();
        let options = options.read(true).append(true).create(true);
        let mut file = options.open(path).map_err(|error| cannot(&error))?;
        file.try_lock().map_err(|error| cannot(&error))?;
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes)?;
        let whole = bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |last| last + 1);
        file.set_len(whole as u64)?;
        if let Some(folder) = path.canonicalize()?.parent() {
            // A file that is new is found after a crash, too.
            File::open(folder)?.sync_all()?;
        }
        tracing::info!(?path, "opened the store");
        Ok(Self(Arc::new(Mutex::new(file))))
    }

    /// Returns all records, the oldest first. Blocks.
    ///
    /// # Errors
    ///
    /// When the file cannot be read.
    pub fn records(&self) -> Result<Vec<Record>, BoxError> {
        let mut file = self.0.lock();
        let mut text = String::new();
        file.seek(SeekFrom::Start(0))?;
        file.read_to_string(&mut text)?;
        Ok(text.lines().map(serde_json::from_str).collect::<Result<_, _>>()?)
    }

    /// Appends a record; it is on the disk when this returns. Blocks.
    ///
    /// # Errors
    ///
    /// When the file cannot be written.
    pub fn append(&self, record: &Record) -> Result<(), BoxError> {
        let mut line = serde_json::to_vec(record)?;
        line.push(b'\n');
        let mut file = self.0.lock();
        let before = file.metadata()?.len();
        let written = file.write_all(&line).and_then(|()| file.sync_data());
        if written.is_err() {
            // Nothing is left of a record that was not written whole.
            file.set_len(before)?;
        }
        Ok(written?)
    }
}
