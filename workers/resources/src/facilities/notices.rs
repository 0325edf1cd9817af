//! The notifications that are not answered yet, on disk.
//!
//! Invariants:
//! 1. Before a resource acts, all that it notifies are on disk as owing an answer, so that no crash
//!    between its action and theirs loses a restart. One may be done that was not needed.
//! 2. An answer covers the notifications that were told before it began, and no later one.
//! 3. A line that is not whole was not relied on: its action has not begun.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crankcase_workers::{FileError, Folder};
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};

use crate::blocking::blocking;
use crate::error::BoxError;

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
    /// Held by who changes what is owed, until the disk has it.
    journal: tokio::sync::Mutex<Journal>,
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
    /// Returns who has told it.
    pub(crate) fn by(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(|(by, _)| by.as_str())
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
                Ok(Line::Answered { target }) => drop(owed.remove(&target)),
                Err(_) => {
                    let path = state.join(NAME);
                    tracing::warn!(?path, line = lines, "a notice is not whole; it is left out");
                }
            }
        }
        let journal = Journal { file: None, lines }.into();
        Ok(Self { state: Some(state.to_owned()), owed: owed.into(), journal })
    }

    /// Returns what a resource was told and has not answered.
    pub(crate) fn due(&self, target: &str) -> Due {
        let owed = self.owed.lock();
        let told =
            owed.get(target).into_iter().flatten().filter(|(_, count)| count.told > count.answered);
        Due(told.map(|(by, count)| (by.clone(), count.told)).collect())
    }

    /// Puts on disk that a resource is about to notify others.
    async fn note(&self, source: &str, targets: &[Arc<str>]) -> Result<(), BoxError> {
        let Some(state) = self.state.as_ref().filter(|_| !targets.is_empty()) else {
            return Ok(());
        };
        let mut journal = self.journal.lock().await;
        let fresh: Vec<_> = {
            let owed = self.owed.lock();
            let fresh = targets.iter().filter(|target| !owed.contains_key(&***target));
            let line = |target: &Arc<str>| Line::Owed {
                target: target.to_string(),
                by: source.to_owned(),
            };
            fresh.map(line).collect()
        };
        journal.append(state, &fresh, true).await?;
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

    /// Takes back that a resource is about to notify others.
    async fn retract(&self, source: &str, targets: &[Arc<str>]) {
        self.change(targets.iter().map(|target| &**target), |by, count| {
            if by == source {
                count.noted -= 1;
            }
        })
        .await;
    }

    /// Says that a resource has answered what it was told.
    pub(crate) async fn settle(&self, target: &str, due: Due) {
        let Due(told) = due;
        if told.is_empty() {
            return;
        }
        self.change([target], |by, count| {
            if let Some((_, told)) = told.iter().find(|(told_by, _)| told_by == by) {
                count.answered = count.answered.max(*told);
            }
        })
        .await;
    }

    /// Changes what is owed to some resources, and forgets what is answered. That this cannot be
    /// written costs a restart, and no more.
    async fn change<'a>(
        &self,
        targets: impl IntoIterator<Item = &'a str>,
        mut change: impl FnMut(&str, &mut Count),
    ) {
        let Some(state) = &self.state else { return };
        let mut journal = self.journal.lock().await;
        let (answered, left) = {
            let mut owed = self.owed.lock();
            let mut answered = BTreeSet::new();
            for target in targets {
                let Some(sources) = owed.get_mut(target) else { continue };
                sources.retain(|by, count| {
                    change(by, count);
                    count.noted > count.answered
                });
                if sources.is_empty() {
                    owed.remove(target);
                    answered.insert(target);
                }
            }
            (answered, Line::all(&owed))
        };
        let lines: Vec<_> = answered
            .into_iter()
            .map(|target| Line::Answered { target: target.to_owned() })
            .collect();
        if lines.is_empty() {
            return;
        }
        let written = if left.is_empty() || journal.lines > left.len() + STALE {
            journal.rewrite(state, &left).await
        } else {
            journal.append(state, &lines, false).await
        };
        if let Err(error) = written {
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
    },
}

impl Line {
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

    fn all(owed: &Owed) -> Vec<Self> {
        let lines = owed.iter().filter_map(|(target, sources)| {
            let by = sources.keys().next()?.clone();
            Some(Self::Owed { target: target.clone(), by })
        });
        lines.collect()
    }
}

/// The file.
#[derive(Debug, Default)]
struct Journal {
    file: Option<File>,
    lines: usize,
}

impl Journal {
    /// Adds lines; with `is_synced` they are on disk afterwards.
    async fn append(
        &mut self,
        state: &Path,
        lines: &[Line],
        is_synced: bool,
    ) -> Result<(), BoxError> {
        if lines.is_empty() {
            return Ok(());
        }
        let (text, state, file) = (Line::write(lines)?, state.to_owned(), self.file.take());
        self.lines += lines.len();
        let work = move || {
            let mut file = file.map_or_else(|| open(&state), Ok)?;
            file.write_all(&text)?;
            if is_synced {
                file.sync_data()?;
            }
            Ok::<_, BoxError>(file)
        };
        self.file = Some(blocking(work).await?);
        Ok(())
    }

    /// Writes the file anew.
    async fn rewrite(&mut self, state: &Path, lines: &[Line]) -> Result<(), BoxError> {
        let (text, state, file) = (Line::write(lines)?, state.to_owned(), self.file.take());
        self.lines = lines.len();
        if text.is_empty()
            && let Some(file) = file
        {
            self.file = Some(blocking(move || file.set_len(0).map(|()| file)).await?);
            return Ok(());
        }
        blocking(move || Folder::open(&state)?.replace(NAME, &text, 0o600)).await
    }
}

/// Opens the file to write at its end.
fn open(state: &Path) -> Result<File, BoxError> {
    let folder = Folder::make(state)?;
    folder.make_private()?;
    let path = state.join(NAME);
    let is_new = folder.look(NAME)?.is_none();
    let file = OpenOptions::new().append(true).create(true).mode(0o600).open(&path);
    let file = file.map_err(FileError::io::<io::Error>("open", &path))?;
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
}

impl<'a> Promise<'a> {
    pub(crate) fn new(notices: &'a Notices, source: &'a str, targets: Vec<Arc<str>>) -> Self {
        Self { notices, source, targets, is_made: AtomicBool::new(false) }
    }

    /// Puts it on disk, before the resource acts for the first time.
    pub(crate) async fn make(&self) -> Result<(), BoxError> {
        if !self.is_made.swap(true, Ordering::Relaxed)
            && let Err(error) = self.notices.note(self.source, &self.targets).await
        {
            self.is_made.store(false, Ordering::Relaxed);
            return Err(error);
        }
        Ok(())
    }

    /// Says whether it has changed, so that the others are told, or takes the promise back.
    pub(crate) async fn keep(self, is_changed: bool) {
        match (self.is_made.into_inner(), is_changed) {
            (false, _) => {}
            (true, true) => self.notices.tell(self.source, &self.targets),
            (true, false) => self.notices.retract(self.source, &self.targets).await,
        }
    }
}
