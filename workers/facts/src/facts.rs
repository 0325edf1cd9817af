//! The facts of a store, as a program uses them.

use std::panic::{RefUnwindSafe, UnwindSafe};
use std::sync::Arc;
use std::time::SystemTime;
use std::vec;

use parking_lot::Mutex;
use tokio::sync::watch;

use crate::change::{Degraded, FactsError, Outcome, Submission};
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
    /// The commits that come before the first change of an empty store.
    first: Mutex<Vec<Commit>>,
    host: Mutex<Option<Arc<str>>>,
}

// A change is published only after its commit, so a panic leaves nothing half done.
impl UnwindSafe for Shared {}
impl RefUnwindSafe for Shared {}

/// Returns the users of facts that a change degrades, from the facts before and after it.
type Judge<'a> = &'a dyn Fn(&Snapshot, &Snapshot) -> Vec<Degraded>;

impl Facts {
    /// Reads the facts of a store. Blocks.
    ///
    /// # Errors
    ///
    /// When the store cannot be read or is damaged.
    pub fn open(mut backend: Box<dyn Backend>) -> Result<Self, StoreError> {
        let current = watch::Sender::new(backend.load()?.into());
        let (watches, first, host) = <(Mutex<Watches>, _, _)>::default();
        Ok(Self(Arc::new(Shared { backend: Mutex::new(backend), current, watches, first, host })))
    }

    /// Sets the host whose layers [`Snapshot::seen`] applies. By default there is none, and layers count for nothing.
    pub fn seen_by(&self, host: &str) {
        // No commit is published between the read and the write.
        let _backend = self.0.backend.lock();
        *self.0.host.lock() = Some(host.into());
        self.0.current.send_replace(self.of_host(self.current()));
    }

    fn of_host(&self, snapshot: Snapshot) -> Snapshot {
        snapshot.of_host(self.0.host.lock().clone())
    }

    /// Makes these changes before the first other change of an empty store, and stores none of them before that: a
    /// store without facts needs no file. [`current`](Self::current) has them at once, with revision 0. A change that
    /// is refused is left out. Does nothing if the store has a commit. Blocks.
    ///
    /// # Errors
    ///
    /// When the store cannot be read.
    pub fn before_first(&self, changes: &[Submission], now: SystemTime) -> Result<(), StoreError> {
        let mut backend = self.0.backend.lock();
        let (mut stored, mut first) = (backend.load()?, Vec::new());
        if stored.revision > 0 {
            return Ok(());
        }
        for submission in changes {
            let before = Snapshot::from(stored.clone());
            match change(&before, submission, (&mut OfBackend(&mut **backend), now)) {
                Ok((_, Some(commit))) => {
                    stored = commit.stored.clone();
                    first.push(commit);
                }
                Err(FactsError::Store(error)) => return Err(error),
                Ok((_, None)) | Err(_) => {}
            }
        }
        stored.revision = 0;
        *self.0.first.lock() = first;
        self.0.current.send_replace(self.of_host(stored.into()));
        Ok(())
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
        self.change(submission, now, None)
    }

    /// Makes a change like [`submit`](Self::submit). Before the commit it asks `judge` which users of facts the change
    /// degrades. `judge` gets the facts before and after the change. It is asked again if another change is committed
    /// meanwhile.
    ///
    /// # Errors
    ///
    /// When the change is refused or cannot be written. Nothing is changed then.
    pub fn submit_judged(
        &self,
        submission: &Submission,
        now: SystemTime,
        judge: Judge<'_>,
    ) -> Result<Outcome, FactsError> {
        self.change(submission, now, Some(judge))
    }

    fn change(
        &self,
        submission: &Submission,
        now: SystemTime,
        judge: Option<Judge<'_>>,
    ) -> Result<Outcome, FactsError> {
        let mut is_first = true;
        loop {
            let mut backend = self.0.backend.lock();
            let revision = self.current().revision();
            let (before, first) = self.begun(now);
            let mut changed = change(&before, submission, (&mut OfBackend(&mut **backend), now));
            if let Some(judge) = judge {
                // Others may make changes while this one is judged for the first time, but not again and again.
                let held = (!is_first).then_some(backend);
                changed = changed.and_then(|changed| judged(&before, changed, submission, judge));
                backend = held.unwrap_or_else(|| self.0.backend.lock());
                is_first = false;
            }
            let (changed, commit) = match changed {
                Ok((outcome, commit)) => (Ok(outcome), commit.filter(|_| !submission.is_trial)),
                Err(error) => (Err(error), None),
            };
            let is_current = match commit {
                Some(commit) => self.commit(&mut **backend, first.into_iter().chain([commit]))?,
                // A refusal or a trial is outdated if another change was committed.
                None => backend.revision()? == revision,
            };
            if is_current {
                return changed;
            }
            // Another change was committed.
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

    /// Returns at most `most` entries of the [`history`](Self::history), newest first. Blocks.
    ///
    /// # Errors
    ///
    /// When the store cannot be read.
    pub fn log(&self, path: Option<&Pointer>, most: usize) -> Result<Vec<Entry>, StoreError> {
        self.history(path).take(most).collect()
    }

    /// Returns the history, newest entry first. With a path, returns only the entries that changed something at, above
    /// or below it. Its entries are read when they are asked for, which blocks.
    pub fn history<'a>(&'a self, path: Option<&'a Pointer>) -> History<'a> {
        History { facts: self, path, page: Vec::new().into_iter(), before: u64::MAX }
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
        // The store may already have later entries, of another process.
        let mut before = self.current().revision().saturating_add(1);
        let mut backend = self.0.backend.lock();
        let mut found = Vec::new();
        while before > revision.saturating_add(1) {
            let newer = usize::try_from(before - revision - 1).unwrap_or(usize::MAX);
            let entries = backend.log(before, newer)?;
            let Some(last) = entries.last() else { break };
            before = last.revision;
            found.extend(entries);
        }
        found.retain(|entry: &Entry| entry.revision > revision && !entry.is_emptied());
        found.reverse();
        Ok(found)
    }

    /// Returns the facts that a change is made on. For an empty store also returns the commits that come before it.
    fn begun(&self, now: SystemTime) -> (Snapshot, Vec<Commit>) {
        let current = self.current();
        if current.revision() > 0 {
            return (current, Vec::new());
        }
        let mut first = self.0.first.lock().clone();
        first.iter_mut().for_each(|commit| commit.entry.at = now);
        let before = first.last().map_or(current, |commit| commit.stored.clone().into());
        (before, first)
    }

    /// Makes commits, one after another. Returns false if another process has committed a change meanwhile.
    fn commit(
        &self,
        backend: &mut dyn Backend,
        commits: impl Iterator<Item = Commit>,
    ) -> Result<bool, StoreError> {
        for commit in commits {
            if !backend.commit(&commit)? {
                return Ok(false);
            }
            self.publish(commit);
        }
        Ok(true)
    }

    fn reload(&self, backend: &mut dyn Backend) -> Result<(), StoreError> {
        let next = self.of_host(backend.load()?.into());
        let before = self.current();
        let differences = crate::difference::difference(before.facts(), next.facts());
        let watches = self.0.watches.lock();
        self.0.current.send_replace(next.clone());
        watches.tell(next.facts(), &differences);
        Ok(())
    }

    fn publish(&self, commit: Commit) {
        let Commit { stored, entry, .. } = commit;
        let next = self.of_host(stored.into());
        // `current` changes before the watchers are notified, because they may read all facts.
        let watches = self.0.watches.lock();
        self.0.current.send_replace(next.clone());
        watches.tell(next.facts(), &entry.differences);
    }
}

/// The entries of a history, see [`Facts::history`]. Ends after an error.
///
/// Entries may be large: at most a page of them is in memory.
#[derive(Debug)]
pub struct History<'a> {
    facts: &'a Facts,
    path: Option<&'a Pointer>,
    page: vec::IntoIter<Entry>,
    /// The revision of the last entry that was read.
    before: u64,
}

impl Iterator for History<'_> {
    type Item = Result<Entry, StoreError>;

    fn next(&mut self) -> Option<Self::Item> {
        let path = self.path;
        let is_meant = |entry: &Entry| match path {
            None => !entry.is_emptied(),
            Some(path) => entry.differences.iter().any(|it| it.path.touches(path)),
        };
        loop {
            if let Some(entry) = self.page.find(is_meant) {
                return Some(Ok(entry));
            }
            let read = self.facts.0.backend.lock().log(self.before, PAGE);
            match read {
                Ok(entries) => {
                    self.before = entries.last()?.revision;
                    self.page = entries.into_iter();
                }
                Err(error) => {
                    self.before = 0;
                    return Some(Err(error));
                }
            }
        }
    }
}

/// Returns the outcome of a change, with the users of facts that it degrades.
fn judged(
    before: &Snapshot,
    (mut outcome, commit): (Outcome, Option<Commit>),
    submission: &Submission,
    judge: Judge<'_>,
) -> Result<(Outcome, Option<Commit>), FactsError> {
    let after = commit.as_ref().map(|commit| Snapshot::from(commit.stored.clone()));
    outcome.degraded = after.map_or_else(Vec::new, |after| judge(before, &after));
    if submission.is_strict && !outcome.degraded.is_empty() {
        return Err(FactsError::Degrades(outcome.degraded));
    }
    Ok((outcome, commit))
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
        if commit.stored.revision != self.stored.revision + 1 {
            return Ok(false);
        }
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
