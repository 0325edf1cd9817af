//! The resources that have begun to act, and whose events are on record for no rule yet, on disk.
//!
//! Invariants:
//! 1. Before a resource acts, its event is on disk. So no kill between the action and the records of the rules loses an
//!    event. One may be told that did not happen, and one may be told twice: handlers are idempotent.
//! 2. A line that is not whole was not relied on: its action has not begun.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;

use crankcase_workers::{FileError, read_file, replace_file};
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};

use crate::error::BoxError;
use crate::observer::Happened;
use crate::rules::Trigger;
use crate::text::chain;

/// The largest file that is read, in bytes.
const LIMIT: u64 = 64 * 1024 * 1024;

/// How many lines that mean nothing any more may be in the file.
const STALE: usize = 1_000;

/// The journal. Without a folder nothing is kept.
#[derive(Debug)]
pub(super) struct Journal {
    folder: PathBuf,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    file: Option<File>,
    lines: usize,
    /// What the rules wait for. None while no rules were taken over: then every event is kept.
    wanted: Option<Vec<Trigger>>,
    /// By the resource, with the number of its beginning.
    open: BTreeMap<String, Begun>,
    last: u64,
    /// What an earlier agent has left, until it is told.
    left: Vec<Begun>,
    is_read: bool,
}

/// An event that is told when a resource has acted, and the number of its beginning.
#[derive(Debug, Clone)]
pub(super) struct Begun {
    pub(super) number: u64,
    pub(super) event: Happened,
}

/// A line of the file.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Line {
    /// A resource is about to act.
    Begun(Box<Happened>),
    /// The event of this resource is on record.
    Noted(String),
}

impl Journal {
    /// Returns the journal in the folder of the rules. Reads it at the first use.
    pub(super) fn new(folder: PathBuf) -> Self {
        Self { folder, state: Mutex::default() }
    }

    /// Sets what the rules wait for.
    pub(super) fn want(&self, triggers: Vec<Trigger>) {
        self.state.lock().wanted = Some(triggers);
    }

    /// Notes that a resource is about to act. Blocks for the disk. That this cannot be written costs an event only if
    /// the agent is killed too.
    pub(super) fn begin(&self, event: &Happened) {
        let state = &mut *self.state.lock();
        let is_wanted = |all: &Vec<Trigger>| all.iter().any(|it| it.is_of(&event.resource));
        if !state.wanted.as_ref().is_none_or(is_wanted) {
            return;
        }
        let begun =
            self.read(state).and_then(|()| self.append(state, &Line::Begun(event.brief().into())));
        if let Err(error) = begun {
            let (resource, error) = (&event.resource, chain(&*error));
            tracing::warn!(resource, error, "cannot put on record what rules are to be told");
        }
        state.open(event.brief());
    }

    /// Returns the number of the last beginning of a resource; 0 if there is none.
    pub(super) fn number(&self, resource: &str) -> u64 {
        self.state.lock().open.get(resource).map_or(0, |begun| begun.number)
    }

    /// Notes that the event of a resource is on record, for the rules that wait for it. Blocks for the disk.
    pub(super) fn note(&self, resource: &str, number: u64) {
        let state = &mut *self.state.lock();
        if state.open.get(resource).is_none_or(|begun| begun.number != number) {
            return;
        }
        state.open.remove(resource);
        let is_stale = state.open.is_empty() || state.lines > STALE + 2 * state.open.len();
        let noted = match is_stale {
            true => self.rewrite(state),
            false => self.append(state, &Line::Noted(resource.to_owned())),
        };
        if let Err(error) = noted {
            let error = chain(&*error);
            tracing::warn!(
                resource,
                error,
                "cannot put on record what rules were told; they may be told again"
            );
        }
    }

    /// Returns the events that an earlier agent has left, at the first call. Blocks for the disk.
    ///
    /// # Errors
    ///
    /// When the file cannot be read.
    pub(super) fn take_left(&self) -> Result<Vec<Begun>, BoxError> {
        let state = &mut *self.state.lock();
        self.read(state)?;
        Ok(std::mem::take(&mut state.left))
    }

    fn path(&self) -> PathBuf {
        // The record of a rule ends in `.json`.
        self.folder.join("events.jsonl")
    }

    fn read(&self, state: &mut State) -> Result<(), BoxError> {
        if state.is_read {
            return Ok(());
        }
        let bytes = match read_file(&self.path(), LIMIT) {
            Err(error) if error.is_missing() => Vec::new(),
            read => read?,
        };
        for line in bytes.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
            state.lines += 1;
            match serde_json::from_slice(line) {
                Ok(Line::Begun(event)) => state.open(*event),
                Ok(Line::Noted(resource)) => drop(state.open.remove(&resource)),
                Err(_) => {
                    let (path, line) = (self.path(), state.lines);
                    tracing::warn!(?path, line, "an event is not whole; it is left out");
                }
            }
        }
        (state.left, state.is_read) = (state.open.values().cloned().collect(), true);
        Ok(())
    }

    fn append(&self, state: &mut State, line: &Line) -> Result<(), BoxError> {
        let mut file = match state.file.take() {
            Some(file) => file,
            None => {
                fs::create_dir_all(&self.folder)
                    .map_err(FileError::io::<std::io::Error>("make", &self.folder))?;
                let (path, mut options) = (self.path(), OpenOptions::new());
                let file = options.append(true).create(true).mode(0o600).open(&path);
                file.map_err(FileError::io::<std::io::Error>("open", &path))?
            }
        };
        // What stands before may not be whole.
        let text = format!("\n{}\n", serde_json::to_string(line)?);
        file.write_all(text.as_bytes())?;
        state.file = Some(file);
        state.lines += 1;
        Ok(())
    }

    fn rewrite(&self, state: &mut State) -> Result<(), BoxError> {
        let begun = state.open.values().map(|begun| Line::Begun(begun.event.clone().into()));
        let lines = begun.map(|line| Ok(serde_json::to_string(&line)? + "\n"));
        let text = lines.collect::<Result<String, BoxError>>()?;
        state.lines = state.open.len();
        if let (true, Some(file)) = (text.is_empty(), &state.file) {
            return Ok(file.set_len(0)?);
        }
        state.file = None;
        Ok(replace_file(&self.path(), text.as_bytes(), 0o600)?)
    }
}

impl State {
    fn open(&mut self, event: Happened) {
        self.last += 1;
        let begun = Begun { number: self.last, event };
        self.open.insert(begun.event.resource.clone(), begun);
    }
}
