//! The notifications that are not answered yet, on disk.
//!
//! Invariants:
//! 1. Before a resource acts, the disk records each resource that it notifies, so that no crash
//!    between its action and theirs loses a restart. One may be done that was not needed.
//! 2. The lines of the file have the order in which they were added.
//! 3. A line that is not whole was not relied on: its action has not begun.
//! 4. A notification is on record until its target has answered it, or has left the site. Its
//!    target need not be among the resources that are applied.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crankcase_workers::{FileError, Folder};
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};

use crate::blocking::blocking;
use crate::error::BoxError;
use crate::observer::{Happened, Observer, What};

/// The largest file that is read, in bytes.
const LIMIT: u64 = 64 * 1024 * 1024;

/// How many lines that mean nothing any more may be in the file.
const STALE: usize = 1_000;

const NAME: &str = "notices";

/// The notifications that are not answered yet. Without a state folder nothing is kept.
#[derive(Debug, Default)]
pub(crate) struct Notices(Option<Arc<Store>>);

/// How many changes there were, from the first to one of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub(crate) struct Position(u64);

/// The resources that notify one, by its name.
type Pending = BTreeMap<String, BTreeSet<String>>;

#[derive(Debug)]
struct Store {
    state: PathBuf,
    queue: Mutex<Queue>,
    /// Locked while lines are written.
    journal: Arc<tokio::sync::Mutex<Journal>>,
}

/// What is not answered, and the lines that are not in the file yet.
#[derive(Debug, Default)]
struct Queue {
    pending: Pending,
    lines: Vec<Line>,
    /// Whether the lines have to be on disk, and not only in the file.
    is_synced: bool,
    position: Position,
}

impl Notices {
    /// Reads what an earlier agent has left.
    pub(super) fn open(state: &Path) -> Result<Self, FileError> {
        let read = Folder::open(state).and_then(|folder| folder.read(NAME, LIMIT));
        let bytes = match read {
            Err(err) if err.is_missing() => Vec::new(),
            read => read?,
        };
        let (mut queue, mut lines) = (Queue::default(), 0);
        for line in bytes.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
            lines += 1;
            match serde_json::from_slice(line) {
                Ok(Line::Owed { target, by }) => drop(queue.add(&target, &by)),
                Ok(Line::Answered { target, by }) => drop(queue.strike(&target, &by)),
                Err(_) => {
                    let path = state.join(NAME);
                    tracing::warn!(?path, line = lines, "a notice is not whole; it is left out");
                }
            }
        }
        let journal = Arc::new(Journal { lines, ..Journal::default() }.into());
        let store = Store { state: state.to_owned(), queue: queue.into(), journal };
        Ok(Self(Some(Arc::new(store))))
    }

    /// Returns who has notified a resource that has not answered.
    pub(crate) fn due(&self, target: &str) -> Vec<String> {
        let Some(store) = &self.0 else { return Vec::new() };
        let queue = store.queue.lock();
        queue.pending.get(target).into_iter().flatten().cloned().collect()
    }

    /// Returns all of them, as target and source.
    pub(crate) fn all(&self) -> Vec<(String, String)> {
        let Some(store) = &self.0 else { return Vec::new() };
        let queue = store.queue.lock();
        let pairs = queue
            .pending
            .iter()
            .flat_map(|(target, sources)| sources.iter().map(|by| (target.clone(), by.clone())));
        pairs.collect()
    }

    /// Returns whether no notification is on record.
    pub(crate) fn are_all_answered(&self) -> bool {
        self.0.as_ref().is_none_or(|store| store.queue.lock().pending.is_empty())
    }

    /// Hands the notifications of each resource over to its heirs: itself, others, or nobody. That
    /// this cannot be written costs another attempt, and no more.
    pub(crate) async fn hand_over(&self, heirs: impl Fn(&str) -> Vec<String>) {
        let all = self.all().into_iter().map(|(target, by)| (heirs(&target), target, by));
        let moved: Vec<_> = all.filter(|(heirs, target, _)| !heirs.contains(target)).collect();
        let mut changed = Position::default();
        for (heirs, target, by) in moved {
            for heir in heirs {
                self.add(&heir, &by);
            }
            changed = self.strike(&target, &by);
        }
        if let Err(error) = self.flush(changed).await {
            tracing::warn!(error, "cannot put on disk who has left and is not notified any more");
        }
    }

    /// Adds that a resource may notify another one from now on. It is on disk when everything up to
    /// the returned position is.
    pub(crate) fn add(&self, target: &str, by: &str) -> Position {
        self.change(|queue| {
            // A line that is lost by a crash of the machine takes none before it along: where the
            // target owes an answer already, that is on disk.
            let is_new = !queue.pending.contains_key(target);
            if queue.add(target, by) {
                queue.lines.push(Line::owed(target, by));
                queue.is_synced |= is_new;
            }
        })
    }

    /// Strikes off a notification: it was answered, or was none.
    pub(crate) fn strike(&self, target: &str, by: &str) -> Position {
        self.change(|queue| {
            if queue.strike(target, by) {
                queue.lines.push(Line::answered(target, by));
            }
        })
    }

    fn change(&self, change: impl FnOnce(&mut Queue)) -> Position {
        let Some(store) = &self.0 else { return Position::default() };
        let mut queue = store.queue.lock();
        let before = queue.lines.len();
        change(&mut queue);
        queue.position.0 += (queue.lines.len() - before) as u64;
        queue.position
    }

    /// Returns the position of the last change.
    pub(crate) fn position(&self) -> Position {
        self.change(|_| {})
    }

    /// Puts on disk what was changed up to a position. Changes that wait at the same time are
    /// written together.
    pub(crate) async fn flush(&self, up_to: Position) -> Result<(), BoxError> {
        let Some(store) = self.0.clone().filter(|_| up_to > Position::default()) else {
            return Ok(());
        };
        let mut journal = Arc::clone(&store.journal).lock_owned().await;
        if journal.written >= up_to {
            return Ok(());
        }
        blocking(move || journal.write(&store)).await
    }

    /// Notes that a resource has answered. That this cannot be written costs a restart, and no
    /// more.
    pub(crate) async fn settle(&self, target: &str, due: &[String]) {
        let struck = due.iter().map(|by| self.strike(target, by)).max();
        self.flush_answers(struck.unwrap_or_default()).await;
    }

    /// Puts on disk what was answered, if that is possible.
    pub(crate) async fn flush_answers(&self, up_to: Position) {
        if let Err(error) = self.flush(up_to).await {
            tracing::warn!(error, "cannot put on disk what was answered; it may be done again");
        }
    }
}

impl Queue {
    /// Returns whether it was not there.
    fn add(&mut self, target: &str, by: &str) -> bool {
        self.pending.entry(target.to_owned()).or_default().insert(by.to_owned())
    }

    /// Returns whether it was there.
    fn strike(&mut self, target: &str, by: &str) -> bool {
        let Some(sources) = self.pending.get_mut(target) else { return false };
        let was_there = sources.remove(by);
        if sources.is_empty() {
            self.pending.remove(target);
        }
        was_there
    }
}

/// A line of the file.
#[derive(Debug, Serialize, Deserialize)]
#[serde(untagged, deny_unknown_fields)]
enum Line {
    Owed {
        #[serde(rename = "owed")]
        target: String,
        by: String,
    },
    Answered {
        #[serde(rename = "answered")]
        target: String,
        by: String,
    },
}

impl Line {
    fn owed(target: &str, by: &str) -> Self {
        Self::Owed { target: target.to_owned(), by: by.to_owned() }
    }

    fn answered(target: &str, by: &str) -> Self {
        Self::Answered { target: target.to_owned(), by: by.to_owned() }
    }

    fn all(pending: &Pending) -> Vec<Self> {
        let pairs = pending.iter().flat_map(|(target, it)| it.iter().map(move |by| (target, by)));
        pairs.map(|(target, by)| Self::owed(target, by)).collect()
    }

    fn write(lines: &[Self]) -> Result<Vec<u8>, BoxError> {
        let mut text = Vec::new();
        for line in lines {
            // What stands before may not be whole.
            text.push(b'\n');
            serde_json::to_writer(&mut text, line)?;
            text.push(b'\n');
        }
        Ok(text)
    }
}

/// The file. All that writes to it holds the lock while it does, also if nobody waits for it any
/// more, so the lines have the order in which they were added.
#[derive(Debug, Default)]
struct Journal {
    file: Option<File>,
    lines: usize,
    written: Position,
}

impl Journal {
    /// Writes all lines that wait. Those that cannot be written wait on.
    fn write(&mut self, store: &Store) -> Result<(), BoxError> {
        let (lines, is_synced, position, rewritten) = {
            let mut queue = store.queue.lock();
            let rewritten = self.is_stale(&queue.pending).then(|| Line::all(&queue.pending));
            let lines = std::mem::take(&mut queue.lines);
            (lines, std::mem::take(&mut queue.is_synced), queue.position, rewritten)
        };
        let written = match rewritten {
            Some(all) => self.rewrite(&store.state, &all),
            None => self.append(&store.state, &lines, is_synced),
        };
        if let Err(error) = written {
            let mut queue = store.queue.lock();
            queue.lines.splice(0..0, lines);
            queue.is_synced |= is_synced;
            return Err(error);
        }
        self.written = position;
        Ok(())
    }

    /// Returns whether the file is to be written anew.
    fn is_stale(&self, pending: &Pending) -> bool {
        let pairs = || pending.values().map(BTreeSet::len).sum::<usize>();
        pending.is_empty() || self.lines > STALE && self.lines > STALE + pairs()
    }

    /// Adds lines; with `is_synced` they are on disk afterwards.
    fn append(&mut self, state: &Path, lines: &[Line], is_synced: bool) -> Result<(), BoxError> {
        if lines.is_empty() {
            return Ok(());
        }
        let text = Line::write(lines)?;
        let mut file = self.file.take().map_or_else(|| open(state), Ok)?;
        file.write_all(&text)?;
        if is_synced {
            file.sync_data()?;
        }
        self.file = Some(file);
        self.lines += lines.len();
        Ok(())
    }

    /// Writes the file anew.
    fn rewrite(&mut self, state: &Path, lines: &[Line]) -> Result<(), BoxError> {
        if lines.is_empty() && std::mem::take(&mut self.lines) == 0 {
            return Ok(());
        }
        self.lines = lines.len();
        if lines.is_empty()
            && let Some(file) = &self.file
        {
            return Ok(file.set_len(0)?);
        }
        self.file = None;
        Ok(Folder::open(state)?.replace(NAME, &Line::write(lines)?, 0o600)?)
    }
}

/// Opens the file to write at its end.
fn open(state: &Path) -> Result<File, BoxError> {
    let folder = Folder::make(state)?;
    folder.make_private()?;
    let is_new = folder.look(NAME)?.is_none();
    let file = folder.append(NAME)?;
    if is_new {
        folder.entries()?.sync()?;
    }
    Ok(file)
}

/// That a resource notifies others if it acts.
#[derive(Debug)]
pub(crate) struct Promise<'a> {
    source: &'a str,
    targets: Vec<Arc<str>>,
    /// Where it is put on record; nowhere if the schedule does that.
    notices: Option<&'a Notices>,
    is_made: AtomicBool,
    /// Who sees that the resource begins to act, and the event that comes of it.
    seen_by: Option<(&'a dyn Observer, Mutex<Happened>)>,
}

impl<'a> Promise<'a> {
    pub(crate) fn new(notices: &'a Notices, source: &'a str, targets: Vec<Arc<str>>) -> Self {
        let notices = Some(notices);
        Self { source, targets, notices, is_made: AtomicBool::new(false), seen_by: None }
    }

    /// Returns a promise that the schedule puts on record. An observer sees it being made, with the
    /// event that comes of the action.
    pub(crate) fn scheduled(
        source: &'a str,
        targets: Vec<Arc<str>>,
        (observer, event): (Option<&'a dyn Observer>, Happened),
    ) -> Self {
        let seen_by = observer.map(|observer| (observer, event.into()));
        Self { source, targets, notices: None, is_made: AtomicBool::new(false), seen_by }
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
    pub(crate) async fn make(&self) -> Result<(), BoxError> {
        if !self.is_made.load(Ordering::Relaxed) {
            if let Some(notices) = self.notices {
                let added = self.targets.iter().map(|target| notices.add(target, self.source));
                notices.flush(added.max().unwrap_or_default()).await?;
            }
            if let Some((observer, event)) = &self.seen_by {
                observer.begins(&event.lock());
            }
            self.is_made.store(true, Ordering::Relaxed);
        }
        Ok(())
    }
}
