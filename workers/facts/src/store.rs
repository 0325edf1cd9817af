//! What keeps facts on disk, or elsewhere.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::time::SystemTime;

use serde_json::Value;

use crate::difference::{Difference, Digest};
use crate::pointer::Pointer;
use crate::schema::Schemas;
use crate::tree::Tree;

/// Keeps facts: the seam between [`Facts`](crate::Facts) and where they are.
///
/// All methods block.
///
/// # Requirements
///
/// - A commit is durable when [`commit`](Self::commit) returns `true`, or leaves nothing: also when the process
///   is killed in the middle of it, or the disk is full.
/// - Of two commits with one expected revision one is refused, also if they come from two processes.
/// - `conformance::check` (feature `testing`) passes.
pub trait Backend: fmt::Debug + Send {
    /// Reads all that is kept. A store that nothing was committed to has empty facts and revision 0.
    ///
    /// # Errors
    ///
    /// When it cannot be read or is damaged.
    fn load(&mut self) -> Result<Stored, StoreError>;

    /// Returns the number of the last commit.
    ///
    /// # Errors
    ///
    /// When it cannot be read.
    fn revision(&mut self) -> Result<u64, StoreError>;

    /// Commits a change if the store is still at the revision before it; returns whether it was.
    ///
    /// # Errors
    ///
    /// When it cannot be written; nothing was changed then.
    fn commit(&mut self, commit: &Commit) -> Result<bool, StoreError>;

    /// Reads the newest entries of the history with a revision below `before`, at most so many, newest first.
    ///
    /// # Errors
    ///
    /// When they cannot be read.
    fn log(&mut self, before: u64, most: usize) -> Result<Vec<Entry>, StoreError>;

    /// Reads the last document that a user has loaded; none if none was.
    ///
    /// # Errors
    ///
    /// When it cannot be read.
    fn document(&mut self) -> Result<Option<Document>, StoreError>;
}

/// A document of facts, as a user has loaded it.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Document {
    /// Its version.
    pub version: u64,
    /// Its facts.
    pub facts: Tree,
}

/// How many entries of the history are kept at least.
pub const KEPT_ENTRIES: u64 = 100_000;

/// All that a store keeps, but the history and the last document.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Stored {
    /// The facts.
    pub facts: Tree,
    /// The version that a user has given them; 0 before the first.
    pub version: u64,
    /// How many commits there have been.
    pub revision: u64,
    /// What the facts are known by.
    pub digest: Digest,
    /// The facts that the agent has written, and which part of it.
    pub owned: BTreeMap<Pointer, String>,
    /// The schemas.
    pub schemas: Schemas,
}

/// One change, to be made as a whole or not at all.
#[derive(Debug, Clone, PartialEq)]
pub struct Commit {
    /// What it leads to. Its revision is one more than that of the store.
    pub stored: Stored,
    /// What is in the history of it.
    pub entry: Entry,
    /// Whether other facts are of the agent than before.
    pub changes_owned: bool,
    /// The path of the schema that is another than before.
    pub changes_schema: Option<Pointer>,
    /// The document, if it is one.
    pub document: Option<Document>,
}

impl Commit {
    /// Returns each fact that is another one than before, as a store keeps them: each value and each empty map
    /// with its path. None is a fact that is gone.
    pub fn rows(&self) -> Vec<(Pointer, Option<Value>)> {
        let mut rows = BTreeMap::new();
        for Difference { path, before, after } in &self.entry.differences {
            if let Some(before) = before {
                before.leaves(path, &mut |path, _| drop(rows.insert(path, None)));
            }
            if let Some(after) = after {
                after.leaves(path, &mut |path, value| drop(rows.insert(path, Some(value))));
            }
            // A map that was or becomes empty is a row itself.
            if let Some((above, _)) = path.split_last() {
                let is_empty =
                    self.stored.facts.at(&above).filter(|it| it.names().next().is_none());
                rows.entry(above).or_insert_with(|| is_empty.map(|it| it.to_value()));
            }
        }
        rows.into_iter().collect()
    }
}

/// One change in the history.
#[derive(Debug, Clone, PartialEq)]
pub struct Entry {
    /// The number of the commit, from 1.
    pub revision: u64,
    /// The version of the facts after it.
    pub version: u64,
    /// When it was made; to the millisecond.
    pub at: SystemTime,
    /// Who has made it.
    pub who: String,
    /// Why.
    pub why: Option<String>,
    /// What it was: `update`, `load`, `merge`, `restore`, `own` or `schema`.
    pub kind: String,
    /// What the facts are known by after it.
    pub digest: Digest,
    /// What has changed, with what was there before.
    pub differences: Vec<Difference>,
}

/// Why a store cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// The file cannot be made, or looked for.
    #[error("cannot make or find {}", path.display())]
    Make {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// The disk refuses, or another process holds the file for too long. Nothing was changed.
    #[error("cannot use the facts in {}", path.display())]
    Use {
        /// The file.
        path: PathBuf,
        /// What the store said.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// What is in the file is not what was written. It is left as it is.
    #[error("the facts in {} are damaged: {why}; put a good copy in its place, or move it away", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        why: String,
    },
    /// A later version of the program has made it.
    #[error("the facts in {} have format {format}; this program reads up to {known}", path.display())]
    Format {
        /// The file.
        path: PathBuf,
        /// Its format.
        format: i64,
        /// The newest format that is read.
        known: i64,
    },
}
