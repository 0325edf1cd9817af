//! Stores of facts, on disk or elsewhere.

use std::collections::BTreeSet;
use std::fmt;
use std::path::PathBuf;
use std::time::SystemTime;

use serde_json::{Map, Value};

use crate::authority::{OwnerChanges, Owners};
use crate::difference::{Difference, Digest};
use crate::pointer::Pointer;
use crate::schema::Schemas;
use crate::tree::{Node, Tree};

/// A store of facts. [`Facts`](crate::Facts) uses it.
///
/// All methods block.
///
/// # Requirements
///
/// - A commit is durable when [`commit`](Self::commit) returns `true`. A commit is stored as a whole or not at all,
///   even if the process is killed during it, or the disk is full.
/// - Of two commits after the same revision, one is refused, even if they come from two processes.
/// - `conformance::check` (feature `testing`) passes.
pub trait Backend: fmt::Debug + Send {
    /// Reads the stored state. A store without commits has empty facts and revision 0.
    ///
    /// # Errors
    ///
    /// When the store cannot be read or is damaged.
    fn load(&mut self) -> Result<Stored, StoreError>;

    /// Returns the number of the last commit.
    ///
    /// # Errors
    ///
    /// When the store cannot be read.
    fn revision(&mut self) -> Result<u64, StoreError>;

    /// Commits a change if the store is still at the revision before it. Returns `false` if it is not.
    ///
    /// # Errors
    ///
    /// When the commit cannot be written. Nothing was changed then.
    fn commit(&mut self, commit: &Commit) -> Result<bool, StoreError>;

    /// Reads the newest entries of the history with a revision below `before`: at most `most`, newest first. Returns
    /// fewer of them if they are large or one is damaged, and none only if there are no more.
    ///
    /// Instead of changes by the agent that are too old to be kept there may be one entry of the kind `own`, which has
    /// the revision and the digest of the last of them, and no differences.
    ///
    /// # Errors
    ///
    /// When the store cannot be read, or the first of these entries is damaged.
    fn log(&mut self, before: u64, most: usize) -> Result<Vec<Entry>, StoreError>;

    /// Reads the last document that a user has loaded; none if no document was loaded.
    ///
    /// # Errors
    ///
    /// When the store cannot be read.
    fn document(&mut self) -> Result<Option<Document>, StoreError>;
}

/// A document of facts, as a user loaded it.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Document {
    /// Its version.
    pub version: u64,
    /// Its facts.
    pub facts: Tree,
}

/// The number of changes by users that the history keeps, unless they are larger than [`KEPT_BYTES`].
pub const KEPT_ENTRIES: u64 = 100_000;

/// The size of the changes by users that the history keeps, in bytes of JSON. The newest one is kept whatever its size.
pub const KEPT_BYTES: u64 = 256 * 1024 * 1024;

/// The number of changes by the agent that the history keeps, unless they are larger than [`KEPT_BYTES_OF_AGENT`]. They
/// have a place of their own, and never remove a change by a user.
pub const KEPT_ENTRIES_OF_AGENT: u64 = 10_000;

/// The size of the changes by the agent that the history keeps, in bytes of JSON.
pub const KEPT_BYTES_OF_AGENT: u64 = 32 * 1024 * 1024;

/// The content of a store, except the history and the last document.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Stored {
    /// The facts.
    pub facts: Tree,
    /// The version of the facts, as given by a user; 0 before the first.
    pub version: u64,
    /// The number of commits so far.
    pub revision: u64,
    /// The digest of the facts.
    pub digest: Digest,
    /// The paths of the agent's facts, each with its owner: a part of the agent.
    pub owned: Owners,
    /// The schemas.
    pub schemas: Schemas,
}

/// One change, which is stored as a whole or not at all.
#[derive(Debug, Clone, PartialEq)]
pub struct Commit {
    /// The content of the store after the change. Its revision is that of the store plus 1.
    pub stored: Stored,
    /// The entry for the history.
    pub entry: Entry,
    /// The owners that have changed; none where a fact has no owner any more.
    pub owners: OwnerChanges,
    /// The path of the changed schema; none if no schema has changed.
    pub changes_schema: Option<Pointer>,
    /// The loaded document; none if the change is no load.
    pub document: Option<Document>,
}

impl Commit {
    /// Calls `visit` with the changed facts as rows of a store: each changed value and each changed empty map, with its
    /// path as text. None removes a row, if it is there.
    ///
    /// # Errors
    ///
    /// The first error of `visit`.
    pub fn each_row<E>(
        &self,
        mut visit: impl FnMut(&str, Option<&Value>) -> Result<(), E>,
    ) -> Result<(), E> {
        let (nothing, mut maps) = (Value::Object(Map::new()), BTreeSet::new());
        for Difference { path, before, after } in &self.entry.differences {
            let is_value = |tree: &Option<Tree>| tree.as_ref().is_some_and(|tree| !tree.is_map());
            if let Some(before) = before.as_ref().filter(|_| !is_value(before) || !is_value(after))
            {
                before.0.each(&mut path.text(), &mut |path, node| match is_row(node) {
                    true => visit(path, None),
                    false => Ok(()),
                })?;
            }
            if let Some(after) = after {
                after.0.each(&mut path.text(), &mut |path, node| match node {
                    Node::Leaf(value) => visit(path, Some(&**value)),
                    Node::Map(_) if is_row(node) => visit(path, Some(&nothing)),
                    Node::Map(_) => Ok(()),
                })?;
            }
            // A map that was empty or becomes empty has a row itself.
            let above = path.split_last().map(|(above, _)| above);
            if let Some(above) = above.filter(|_| before.is_none() || after.is_none())
                && !maps.contains(&above)
            {
                let is_empty = self.stored.facts.node(&above).is_some_and(is_row);
                visit(&above.to_string(), is_empty.then_some(&nothing))?;
                maps.insert(above);
            }
        }
        Ok(())
    }
}

/// Returns whether a store has a row for a map or a value.
fn is_row(node: &Node) -> bool {
    match node {
        Node::Leaf(_) => true,
        Node::Map(members) => members.is_empty(),
    }
}

/// One change in the history.
#[derive(Debug, Clone, PartialEq)]
pub struct Entry {
    /// The number of the commit, from 1.
    pub revision: u64,
    /// The version of the facts after the change.
    pub version: u64,
    /// The time of the change, to the millisecond.
    pub at: SystemTime,
    /// The sender; `author, by sender` if an update names another author.
    pub who: String,
    /// The reason; none if none was given.
    pub why: Option<String>,
    /// The kind of change: `update`, `load`, `merge`, `restore`, `own` or `schema`.
    pub kind: String,
    /// The digest of the facts after the change.
    pub digest: Digest,
    /// The changed facts, with their values before and after.
    pub differences: Vec<Difference>,
}

impl Entry {
    /// Returns whether the entry stands for changes by the agent that are not kept any more.
    pub(crate) fn is_emptied(&self) -> bool {
        self.kind == OWN && self.differences.is_empty()
    }
}

/// The kind of the changes by the agent.
pub(crate) const OWN: &str = "own";

/// Why a store cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// The file cannot be created or looked up.
    #[error("cannot make or find {}", path.display())]
    Make {
        /// The file.
        path: PathBuf,
        /// The error of the operating system.
        source: std::io::Error,
    },
    /// The disk fails or is full, or another process locks the file for too long. Nothing was changed.
    #[error("cannot use the facts in {}", path.display())]
    Use {
        /// The file.
        path: PathBuf,
        /// The error of the store.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The content of the file is not what was written. The file is left unchanged.
    #[error("the facts in {} are damaged: {why}; put a good copy in its place, or move it away", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// The damage, in words.
        why: String,
    },
    /// An entry of the history is not what was written. The file is left unchanged.
    #[error("the entry of version {version} (revision {revision}) in the history of {} is damaged", path.display())]
    Entry {
        /// The file.
        path: PathBuf,
        /// The revision of the entry.
        revision: u64,
        /// The version of the entry.
        version: u64,
    },
    /// An earlier version of the program made the file, and it was opened to be read. [`Sqlite::open`](crate::Sqlite::open)
    /// migrates it.
    #[error(
        "the facts in {} have format {format}; an agent or a change of a fact brings them to format \
         {newest}",
        path.display()
    )]
    Older {
        /// The file.
        path: PathBuf,
        /// The format of the file.
        format: i64,
        /// The format that is written.
        newest: i64,
    },
    /// A later version of the program made the file.
    #[error("the facts in {} have format {format}; this program reads up to {known}", path.display())]
    Format {
        /// The file.
        path: PathBuf,
        /// The format of the file.
        format: i64,
        /// The newest format that this program reads.
        known: i64,
    },
}
