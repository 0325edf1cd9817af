//! The facts of a store, as a program uses them.

use std::panic::{RefUnwindSafe, UnwindSafe};
use std::sync::Arc;
use std::time::SystemTime;

use parking_lot::Mutex;
use tokio::sync::watch;

use crate::change::{FactsError, Outcome, Submission};
use crate::pointer::Pointer;
use crate::state::{Past, Snapshot, change};
use crate::store::{Backend, Commit, Document, Entry, StoreError, Stored};
use crate::tree::Tree;
use crate::watching::Watches;

/// The number of history entries that are read at a time.
const PAGE: usize = 20;

/// The facts of a store. Cheap to clone; clones share the facts.
///
/// Methods that read or write the store block, and run one at a time. [`current`](Self::current) and
/// [`watch`](Self::watch) do not block.
///
/// # Examples
///
/// ```
/// use std::time::SystemTime;
/// use crankcase_facts::{Change, Facts, Sqlite, Submission, Update};
/// use serde_json::json;
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let folder = tempfile::tempdir()?;
/// let facts = Facts::open(Box::new(Sqlite::open(&folder.path().join("facts.db"))?))?;
/// let globals = facts.watch(&"/mero/globals".parse()?);
/// let update = Update::read(&json!({"version": 1, "ops": [["SET", "/mero", {"globals": {"n": 8}}]]}))?;
/// facts.submit(&Submission::new(Change::Update(update), "ada"), SystemTime::now())?;
/// assert_eq!(globals.borrow().as_ref().map(|it| it.to_value()), Some(json!({"n": 8})));
/// # Ok(()) }
/// ```
#[derive(Debug, Clone)]
pub struct Facts(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    backend: Mutex<Box<dyn Backend>>,
    current: watch::Sender<Snapshot>,
    watches: Mutex<Watches>,
}

// A change is published only after its commit, so a panic leaves nothing half done.
impl UnwindSafe for Shared {}
impl RefUnwindSafe for Shared {}

impl Facts {
    /// Reads the facts of a store. Blocks.
    ///
    /// # Errors
    ///
    /// When the store cannot be read or is damaged.
    pub fn open(mut backend: Box<dyn Backend>) -> Result<Self, StoreError> {
        let current = watch::Sender::new(backend.load()?.into());
        let shared = Shared { backend: Mutex::new(backend), current, watches: Mutex::default() };
        Ok(Self(Arc::new(shared)))
    }

    /// Returns the facts of the last commit.
    pub fn current(&self) -> Snapshot {
        self.0.current.borrow().clone()
    }

    /// Returns a channel with the facts of the last commit.
    pub fn follow(&self) -> watch::Receiver<Snapshot> {
        self.0.current.subscribe()
    }

    /// Returns a channel with the facts at a path. It changes only when these facts change.
    pub fn watch(&self, path: &Pointer) -> watch::Receiver<Option<Tree>> {
        // The lock keeps a commit from being published between the two calls, so no change is missed.
        let mut watches = self.0.watches.lock();
        let current = self.current();
        watches.follow(path, current.facts())
    }

    /// Makes a change; a trial only returns the outcome. Blocks until the change is on disk.
    ///
    /// # Errors
    ///
    /// When the change is refused or cannot be written. Nothing is changed then.
    pub fn submit(&self, submission: &Submission, now: SystemTime) -> Result<Outcome, FactsError> {
        let mut backend = self.0.backend.lock();
        loop {
            let before = self.current();
            let changed = change(&before, submission, (&mut OfBackend(&mut **backend), now));
            let (changed, commit) = match changed {
                Ok((outcome, commit)) => (Ok(outcome), commit.filter(|_| !submission.is_trial)),
                Err(error) => (Err(error), None),
            };
            let is_current = match commit {
                Some(commit) if backend.commit(&commit)? => {
                    self.publish(commit);
                    true
                }
                Some(_) => false,
                // A refusal or a trial is outdated if another process has committed a change.
                None => backend.revision()? == before.revision(),
            };
            if is_current {
                return changed;
            }
            // Another process has committed a change.
            self.reload(&mut **backend)?;
        }
    }

    /// Takes over the commits of other processes; returns whether there were any. Blocks.
    ///
    /// # Errors
    ///
    /// When the store cannot be read.
    pub fn refresh(&self) -> Result<bool, StoreError> {
        let mut backend = self.0.backend.lock();
        let is_behind = backend.revision()? != self.current().revision();
        if is_behind {
            self.reload(&mut **backend)?;
        }
        Ok(is_behind)
    }

    /// Returns at most `most` entries of the history, newest first. With a path, returns only the entries that
    /// changed something at, above or below it. Blocks.
    ///
    /// # Errors
    ///
    /// When the store cannot be read.
    pub fn log(&self, path: Option<&Pointer>, most: usize) -> Result<Vec<Entry>, StoreError> {
        let mut backend = self.0.backend.lock();
        let (mut found, mut before) = (Vec::new(), u64::MAX);
        while found.len() < most {
            let page = if path.is_none() { (most - found.len()).min(PAGE) } else { PAGE };
            let entries = backend.log(before, page)?;
            let Some(last) = entries.last() else { break };
            before = last.revision;
            let is_meant = |entry: &Entry| {
                path.is_none_or(|path| entry.differences.iter().any(|it| it.path.touches(path)))
            };
            found.extend(entries.into_iter().filter(is_meant));
        }
        found.truncate(most);
        Ok(found)
    }

    /// Returns the entry of the history with this revision; none if the history does not have it. Blocks.
    ///
    /// # Errors
    ///
    /// When the store cannot be read.
    pub fn entry(&self, revision: u64) -> Result<Option<Entry>, StoreError> {
        let found = self.0.backend.lock().log(revision.saturating_add(1), 1)?;
        Ok(found.into_iter().find(|entry| entry.revision == revision))
    }

    /// Returns all facts as they were at the end of a version. Blocks.
    ///
    /// # Errors
    ///
    /// [`FactsError::NoVersion`] when the history does not reach back to the version, or the version never existed.
    pub fn at_version(&self, version: u64) -> Result<Tree, FactsError> {
        let mut backend = self.0.backend.lock();
        self.current().facts_at(version, &mut OfBackend(&mut **backend))
    }

    /// Returns the last document that a user has loaded; none if no document was loaded. Blocks.
    ///
    /// # Errors
    ///
    /// When the store cannot be read.
    pub fn document(&self) -> Result<Option<Document>, StoreError> {
        self.0.backend.lock().document()
    }

    /// Returns a copy of the facts in memory. Its changes are not written to disk, and it has no history. Blocks.
    ///
    /// # Errors
    ///
    /// When the store cannot be read.
    pub fn trial(&self) -> Result<Self, StoreError> {
        let mut backend = self.0.backend.lock();
        let (stored, document) = (backend.load()?, backend.document()?);
        drop(backend);
        Self::open(Box::new(InMemory { stored, document }))
    }

    /// Returns the entries of the history after this revision up to that of [`current`](Self::current), oldest first.
    /// Blocks.
    ///
    /// # Errors
    ///
    /// When the store cannot be read.
    pub fn since(&self, revision: u64) -> Result<Vec<Entry>, StoreError> {
        let last = self.current().revision();
        let newer = usize::try_from(last.saturating_sub(revision)).unwrap_or(usize::MAX);
        // The store may already have later entries, of another process.
        let mut entries = self.0.backend.lock().log(last.saturating_add(1), newer)?;
        entries.retain(|entry| entry.revision > revision);
        entries.reverse();
        Ok(entries)
    }

    fn reload(&self, backend: &mut dyn Backend) -> Result<(), StoreError> {
        let next: Snapshot = backend.load()?.into();
        let before = self.current();
        let differences = crate::difference::difference(before.facts(), next.facts());
        let watches = self.0.watches.lock();
        self.0.current.send_replace(next.clone());
        watches.tell(next.facts(), &differences);
        Ok(())
    }

    fn publish(&self, commit: Commit) {
        let Commit { stored, entry, .. } = commit;
        let next: Snapshot = stored.into();
        // `current` changes before the watchers are notified, because they may read all facts.
        let watches = self.0.watches.lock();
        self.0.current.send_replace(next.clone());
        watches.tell(next.facts(), &entry.differences);
    }
}

/// Facts in memory, without a history.
#[derive(Debug)]
struct InMemory {
    stored: Stored,
    document: Option<Document>,
}

impl Backend for InMemory {
    fn load(&mut self) -> Result<Stored, StoreError> {
        Ok(self.stored.clone())
    }

    fn revision(&mut self) -> Result<u64, StoreError> {
        Ok(self.stored.revision)
    }

    fn commit(&mut self, commit: &Commit) -> Result<bool, StoreError> {
        self.stored = commit.stored.clone();
        self.document = commit.document.clone().or(self.document.take());
        Ok(true)
    }

    fn log(&mut self, _before: u64, _most: usize) -> Result<Vec<Entry>, StoreError> {
        Ok(Vec::new())
    }

    fn document(&mut self) -> Result<Option<Document>, StoreError> {
        Ok(self.document.clone())
    }
}

struct OfBackend<'a>(&'a mut dyn Backend);

impl Past for OfBackend<'_> {
    fn entries(&mut self, before: u64) -> Result<Vec<Entry>, StoreError> {
        self.0.log(before, PAGE)
    }

    fn document(&mut self) -> Result<Option<Document>, StoreError> {
        self.0.document()
    }
}
