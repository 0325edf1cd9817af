//! The notifications that are not answered yet, on disk.
//!
//! Invariants:
//! 1. Before a resource acts, the disk records each resource that it notifies, so that no crash
//!    between its action and theirs loses a restart. One may be done that was not needed.
//! 2. An answer covers the notifications that were told before it began, and no later one.
//! 3. A line that is not whole was not relied on: its action has not begun.
//! 4. A notification is on record until its target has answered it, or has left the site. Its target
//!    need not be among the resources that are applied.

use std::collections::BTreeMap;
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
pub(crate) struct Notices {
    state: Option<PathBuf>,
    owed: Mutex<Owed>,
    /// Locked from a change of what is owed until the change is on disk.
    journal: Arc<tokio::sync::Mutex<Journal>>,
}

/// By the resource that is notified, and the one that notifies it.
type Owed = BTreeMap<String, BTreeMap<String, Count>>;

/// How often a resource was to notify another one, how many of these times it has, and how many of
/// them were answered.
#[derive(Debug, Clone, Copy, Default)]
struct Count {
    noted: u64,
    told: u64,
    answered: u64,
}

/// What a resource was told up to some moment.
#[derive(Debug, Default)]
pub(crate) struct Due(Vec<(String, u64)>);

impl Due {
    /// Returns the names of the resources that have notified it.
    pub(crate) fn by(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(|(by, _)| by.as_str())
    }

    /// Leaves to be answered later what this resource has told.
    pub(crate) fn leave_out(&mut self, by: &str) {
        self.0.retain(|(told_by, _)| told_by != by);
    }
}

impl Notices {
    /// Reads what an earlier agent has left.
    pub(super) fn open(state: &Path) -> Result<Self, FileError> {
        let read = Folder::open(state).and_then(|folder| folder.read(NAME, LIMIT));
        let bytes = match read {
            Err(err) if err.is_missing() => Vec::new(),
            read => read?,
        };
        let (mut owed, mut lines) = (Owed::new(), 0);
        for line in bytes.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
            lines += 1;
            match serde_json::from_slice(line) {
                Ok(Line::Owed { target, by }) => {
                    owed.entry(target)
                        .or_default()
                        .insert(by, Count { noted: 1, told: 1, answered: 0 });
                }
                Ok(Line::Answered { target, by }) => {
                    let sources = owed.entry(target.clone()).or_default();
                    sources.remove(&by);
                    if sources.is_empty() {
                        owed.remove(&target);
                    }
                }
                Err(_) => {
                    let path = state.join(NAME);
                    tracing::warn!(?path, line = lines, "a notice is not whole; it is left out");
                }
            }
        }
        let journal = Arc::new(Journal { file: None, lines }.into());
        Ok(Self { state: Some(state.to_owned()), owed: owed.into(), journal })
    }

    /// Returns what a resource was told and has not answered.
    pub(crate) fn due(&self, target: &str) -> Due {
        let owed = self.owed.lock();
        let told =
            owed.get(target).into_iter().flatten().filter(|(_, count)| count.told > count.answered);
        Due(told.map(|(by, count)| (by.clone(), count.told)).collect())
    }

    /// Returns whether no notification is on record.
    pub(crate) fn are_all_answered(&self) -> bool {
        self.owed.lock().is_empty()
    }

    /// Hands what is owed to each resource over to its heirs: itself, others, or nobody. That this
    /// cannot be written costs another attempt, and no more.
    pub(crate) async fn hand_over(&self, heirs: impl Fn(&str) -> Vec<String>) {
        let Some(state) = self.state.clone() else { return };
        let mut journal = Arc::clone(&self.journal).lock_owned().await;
        let lines = {
            let mut owed = self.owed.lock();
            let all = owed.keys().map(|target| (target.clone(), heirs(target)));
            let moved: Vec<_> = all.filter(|(target, heirs)| !heirs.contains(target)).collect();
            if moved.is_empty() {
                return;
            }
            for (target, heirs) in moved {
                let sources = owed.remove(&target).unwrap_or_default();
                for (heir, by) in heirs.iter().flat_map(|it| sources.keys().map(move |by| (it, by)))
                {
                    let counts = owed.entry(heir.clone()).or_default();
                    let count = counts.entry(by.clone()).or_default();
                    count.noted += 1;
                    count.told = count.noted;
                }
            }
            Line::all(&owed)
        };
        if let Err(error) = blocking(move || journal.rewrite(&state, &lines)).await {
            tracing::warn!(error, "cannot put on disk who has left and is not notified any more");
        }
    }

    /// Puts on disk that a resource is about to notify others.
    async fn note(&self, source: &str, targets: &[Arc<str>]) -> Result<(), BoxError> {
        let Some(state) = self.state.clone().filter(|_| !targets.is_empty()) else {
            return Ok(());
        };
        let mut journal = Arc::clone(&self.journal).lock_owned().await;
        let (lines, is_new) = {
            let owed = self.owed.lock();
            let has = |target: &str| owed.get(target).is_some_and(|it| it.contains_key(source));
            let lines = targets.iter().filter(|target| !has(target));
            let lines: Vec<_> = lines.map(|target| Line::owed(target, source)).collect();
            // A line that is lost by a crash of the machine takes none before it along: where the
            // target is owed an answer already, that is on disk.
            (lines, targets.iter().any(|target| !owed.contains_key(&**target)))
        };
        let work = move || journal.append(&state, &lines, is_new).map(|()| journal);
        let _journal = blocking(work).await?;
        let mut owed = self.owed.lock();
        for target in targets {
            let sources = owed.entry(target.to_string()).or_default();
            sources.entry(source.to_owned()).or_default().noted += 1;
        }
        Ok(())
    }

    /// Says that a resource has notified the others.
    fn tell(&self, source: &str, targets: &[Arc<str>]) {
        let mut owed = self.owed.lock();
        for target in targets {
            if let Some(count) = owed.get_mut(&**target).and_then(|it| it.get_mut(source)) {
                count.told = count.noted;
            }
        }
    }

    /// Says that a resource has answered what it was told. That this cannot be written costs a
    /// restart, and no more.
    pub(crate) async fn settle(&self, target: &str, due: Due) {
        let Some(state) = self.state.clone().filter(|_| !due.0.is_empty()) else { return };
        let mut journal = Arc::clone(&self.journal).lock_owned().await;
        let (lines, rewritten) = {
            let mut owed = self.owed.lock();
            let Some(sources) = owed.get_mut(target) else { return };
            let mut lines = Vec::new();
            for (by, told) in due.0 {
                let Some(count) = sources.get_mut(&by) else { continue };
                count.answered = count.answered.max(told);
                if count.noted == count.answered {
                    sources.remove(&by);
                    lines.push(Line::Answered { target: target.to_owned(), by });
                }
            }
            if sources.is_empty() {
                owed.remove(target);
            }
            (lines, journal.is_stale(&owed).then(|| Line::all(&owed)))
        };
        let work = move || match rewritten {
            Some(lines) => journal.rewrite(&state, &lines),
            None => journal.append(&state, &lines, false),
        };
        if let Err(error) = blocking(work).await {
            tracing::warn!(error, "cannot put on disk what was answered; it may be done again");
        }
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

    fn all(owed: &Owed) -> Vec<Self> {
        let pairs = owed.iter().flat_map(|(target, it)| it.keys().map(move |by| (target, by)));
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

/// The file. All that writes to it holds the lock while it does, also if nobody waits for it any more,
/// so the lines have the order in which what is owed changed.
#[derive(Debug, Default)]
struct Journal {
    file: Option<File>,
    lines: usize,
}

impl Journal {
    /// Returns whether the file is to be written anew.
    fn is_stale(&self, owed: &Owed) -> bool {
        let pairs = || owed.values().map(BTreeMap::len).sum::<usize>();
        owed.is_empty() || self.lines > STALE && self.lines > STALE + pairs()
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
    notices: &'a Notices,
    source: &'a str,
    targets: Vec<Arc<str>>,
    is_made: AtomicBool,
    /// Who sees that the resource begins to act, and the event that comes of it.
    seen_by: Option<(&'a dyn Observer, Mutex<Happened>)>,
}

impl<'a> Promise<'a> {
    pub(crate) fn new(notices: &'a Notices, source: &'a str, targets: Vec<Arc<str>>) -> Self {
        Self { notices, source, targets, is_made: AtomicBool::new(false), seen_by: None }
    }

    /// Returns the same promise, which an observer sees being made, with the event that comes of the action.
    pub(crate) fn seen_by(self, observer: Option<&'a dyn Observer>, event: Happened) -> Self {
        Self { seen_by: observer.map(|observer| (observer, event.into())), ..self }
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
            self.notices.note(self.source, &self.targets).await?;
            if let Some((observer, event)) = &self.seen_by {
                observer.begins(&event.lock());
            }
            self.is_made.store(true, Ordering::Relaxed);
        }
        Ok(())
    }

    /// Says that the others are told now, if the resource has acted at all. What has failed or was
    /// interrupted may have changed something: that is told by a later run.
    pub(crate) fn keep(self) {
        if self.is_made.into_inner() {
            self.notices.tell(self.source, &self.targets);
        }
    }
}
