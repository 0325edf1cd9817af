//! The events of resources that have begun to act, in a file, until they are on record for the rules.
//!
//! Invariants:
//! 1. Before a resource acts, its event is in the file. So no kill between the action and the records of the rules loses
//!    an event. One may be told that did not happen, and one may be told twice: handlers are idempotent. The file is not
//!    synced: a power cut may lose an event.
//! 2. A line that is not whole was not relied on: its action has not begun.
//! 3. The file has at most one event of each kind of a resource, and a bounded number of lines that mean nothing.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};

use crankcase_workers::{FileError, Folder};
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};

use crate::base::error::BoxError;
use crate::base::text::chain;
use crate::report::observer::{Event, EventKind};
use crate::rules::cause::Trigger;

/// The name of the file.
const NAME: &str = "events.jsonl";

/// The largest file that is read, in bytes.
const LIMIT: u64 = 64 * 1024 * 1024;

/// The most outdated lines in the file.
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
    /// By the resource, and the word of the event.
    open: BTreeMap<(String, &'static str), Begun>,
    last: u64,
    /// What an earlier agent has left, until it is told.
    left: Vec<Begun>,
    is_read: bool,
}

/// An event that is told when a resource has acted, and the number of its beginning.
#[derive(Debug, Clone)]
pub(super) struct Begun {
    pub(super) number: u64,
    pub(super) event: Event,
    /// Whether the rules get the event.
    pub(super) is_told: bool,
}

/// A line of the file.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Line {
    /// A resource is about to act.
    Begun(Box<Event>),
    /// The event of a resource is on record, or did not happen.
    Noted { resource: String, event: EventKind },
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

    /// Notes that a resource is about to act. Blocks for the disk. If the line cannot be written, the event is lost
    /// only if the agent is killed too.
    pub(super) fn begin(&self, event: &Event) {
        let state = &mut *self.state.lock();
        let is_wanted = |all: &Vec<Trigger>| all.iter().any(|it| it.is_of(&event.resource));
        if !state.wanted.as_ref().is_none_or(is_wanted) {
            return;
        }
        let (read, line) = (self.read(state), Line::Begun(event.brief().into()));
        state.open(event.brief());
        if let Err(error) = read.and_then(|()| self.write(state, &line)) {
            let (resource, error) = (&event.resource, chain(&*error));
            tracing::warn!(resource, error, "cannot put an event for the rules on record");
        }
    }

    /// Notes that the rules get an event of a resource. Returns the number of its last beginning; 0 if there is none.
    pub(super) fn tell(&self, resource: &str) -> u64 {
        let state = &mut *self.state.lock();
        let Some(last) = state.last_of(resource) else { return 0 };
        last.is_told = true;
        last.number
    }

    /// Notes that the last action that a resource has begun leads to no event. Blocks for the disk.
    pub(super) fn end(&self, resource: &str) {
        let state = &mut *self.state.lock();
        let last = state.last_of(resource).filter(|begun| !begun.is_told);
        if let Some(event) = last.map(|begun| begun.event.event) {
            self.remove(state, resource, event);
        }
    }

    /// Notes that the event of a resource is on record, for the rules that wait for it. Blocks for the disk.
    pub(super) fn note(&self, resource: &str, number: u64) {
        let state = &mut *self.state.lock();
        let begun = state.of(resource).find(|begun| begun.number == number);
        if let Some(event) = begun.map(|begun| begun.event.event) {
            self.remove(state, resource, event);
        }
    }

    fn remove(&self, state: &mut State, resource: &str, event: EventKind) {
        state.open.remove(&(resource.to_owned(), event.word()));
        let line = Line::Noted { resource: resource.to_owned(), event };
        if let Err(error) = self.write(state, &line) {
            let error = chain(&*error);
            tracing::warn!(
                resource,
                error,
                "cannot put on record that the rules have an event; they may get it again"
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
        self.folder.join(NAME)
    }

    fn read(&self, state: &mut State) -> Result<(), BoxError> {
        if state.is_read {
            return Ok(());
        }
        let opened = Folder::open_own(&self.folder);
        let bytes = match opened.and_then(|folder| folder.read(NAME, LIMIT)) {
            Err(error) if error.is_missing() => Vec::new(),
            read => read?,
        };
        for line in bytes.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
            state.lines += 1;
            match serde_json::from_slice(line) {
                Ok(Line::Begun(event)) => state.open(*event),
                Ok(Line::Noted { resource, event }) => {
                    state.open.remove(&(resource, event.word()));
                }
                Err(_) => {
                    let (path, line) = (self.path(), state.lines);
                    tracing::warn!(
                        ?path,
                        line,
                        "a line of the events for the rules is not whole; it is left out"
                    );
                }
            }
        }
        (state.left, state.is_read) = (state.begun(), true);
        Ok(())
    }

    /// Adds a line, or writes the whole file again if most of its lines are outdated. `state` is as
    /// it is with the new line.
    fn write(&self, state: &mut State, line: &Line) -> Result<(), BoxError> {
        let is_stale = state.open.is_empty() || state.lines > STALE + 2 * state.open.len();
        match state.is_read {
            true if is_stale => self.rewrite(state),
            true => self.append(state, line),
            // A file that could not be read stays as it is.
            false => Ok(()),
        }
    }

    fn append(&self, state: &mut State, line: &Line) -> Result<(), BoxError> {
        let mut file = match state.file.take() {
            Some(file) => file,
            None => open(&self.folder)?.append(NAME)?,
        };
        // The line before may not be whole.
        let text = format!("\n{}\n", serde_json::to_string(line)?);
        file.write_all(text.as_bytes())?;
        state.file = Some(file);
        state.lines += 1;
        Ok(())
    }

    fn rewrite(&self, state: &mut State) -> Result<(), BoxError> {
        let lines = state.begun().into_iter().map(|begun| {
            let line = Line::Begun(begun.event.into());
            Ok(serde_json::to_string(&line)? + "\n")
        });
        let text = lines.collect::<Result<String, BoxError>>()?;
        state.lines = state.open.len();
        if let (true, Some(file)) = (text.is_empty(), &state.file) {
            return Ok(file.set_len(0)?);
        }
        state.file = None;
        Ok(open(&self.folder)?.replace(NAME, text.as_bytes(), 0o600)?)
    }
}

impl State {
    fn open(&mut self, event: Event) {
        self.last += 1;
        let key = (event.resource.clone(), event.event.word());
        self.open.insert(key, Begun { number: self.last, event, is_told: false });
    }

    /// Returns what is open, in the order of the beginnings.
    fn begun(&self) -> Vec<Begun> {
        let mut begun: Vec<_> = self.open.values().cloned().collect();
        begun.sort_by_key(|begun| begun.number);
        begun
    }

    /// Returns what a resource has begun.
    fn of<'a>(&'a mut self, resource: &'a str) -> impl Iterator<Item = &'a mut Begun> {
        let from = (resource.to_owned(), "");
        let begun = self.open.range_mut(from..).map(|(_, begun)| begun);
        begun.take_while(move |begun| begun.event.resource == resource)
    }

    fn last_of<'a>(&'a mut self, resource: &'a str) -> Option<&'a mut Begun> {
        self.of(resource).max_by_key(|begun| begun.number)
    }
}

/// Opens the folder, past no symlink, and makes it if it is not there.
fn open(folder: &Path) -> Result<Folder, FileError> {
    match Folder::open_own(folder) {
        Err(error) if error.is_missing() => Folder::make_own(folder),
        opened => opened,
    }
}

#[cfg(test)]
mod tests {
    use std::error::Error;
    use std::fs;
    use std::path::Path;
    use std::time::Duration;

    use super::{Journal, STALE};
    use crate::report::observer::{Event, EventKind};

    fn event(what: EventKind, resource: &str) -> Event {
        Event::new(what, (resource, "file"), ("", Duration::ZERO))
    }

    /// Returns what the next agent finds.
    fn left(folder: &Path) -> Result<Vec<(String, &'static str)>, Box<dyn Error>> {
        let left =
            Journal::new(folder.to_owned()).take_left().map_err(|error| error.to_string())?;
        Ok(left.into_iter().map(|it| (it.event.resource, it.event.event.word())).collect())
    }

    #[test]
    fn an_event_stays_when_another_kind_of_event_of_its_resource_begins()
    -> Result<(), Box<dyn Error>> {
        let folder = tempfile::tempdir()?;
        let journal = Journal::new(folder.path().to_owned());
        journal.begin(&event(EventKind::Repaired, "other"));
        journal.begin(&event(EventKind::Repaired, "page"));
        let repaired = journal.tell("page");
        journal.begin(&event(EventKind::Changed, "page"));
        let changed = journal.tell("page");
        journal.begin(&event(EventKind::Changed, "pages"));

        let all = ["other", "page", "page", "pages"].map(str::to_owned);
        let words = ["repaired", "repaired", "changed", "changed"];
        assert_eq!(left(folder.path())?, all.into_iter().zip(words).collect::<Vec<_>>());
        journal.note("page", changed);
        journal.note("page", changed);
        assert_eq!(left(folder.path())?[1], ("page".to_owned(), "repaired"));
        journal.note("page", repaired);
        assert_eq!(left(folder.path())?.len(), 2);
        Ok(())
    }

    #[test]
    fn what_fails_again_leaves_no_event() -> Result<(), Box<dyn Error>> {
        let folder = tempfile::tempdir()?;
        let journal = Journal::new(folder.path().to_owned());
        journal.begin(&event(EventKind::Changed, "page"));
        journal.end("page");
        assert!(left(folder.path())?.is_empty());

        journal.begin(&event(EventKind::Changed, "page"));
        journal.tell("page");
        journal.end("page");
        assert_eq!(left(folder.path())?, [("page".to_owned(), "changed")], "the rules get it");
        Ok(())
    }

    #[test]
    fn the_file_is_bounded_while_nothing_can_be_noted() -> Result<(), Box<dyn Error>> {
        let folder = tempfile::tempdir()?;
        let journal = Journal::new(folder.path().to_owned());

        (0..3 * STALE).for_each(|_| journal.begin(&event(EventKind::Repaired, "page")));

        let text = fs::read_to_string(folder.path().join("events.jsonl"))?;
        let lines = text.lines().filter(|line| !line.is_empty()).count();
        assert!(lines <= STALE + 3, "{lines}");
        assert_eq!(left(folder.path())?.len(), 1);
        Ok(())
    }
}
