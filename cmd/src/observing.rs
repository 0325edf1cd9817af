//! The events of resources: their record, and the output while they happen.

use std::collections::HashMap;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use crankcase_history::{self as history, Recorder};
use crankcase_resources::report::{Accounted, EventKind};
use crankcase_resources::{Event, Observer};
use parking_lot::Mutex;
use serde::Serialize;
use serde_json::json;
use tokio::time::Instant;

use crate::global::Global;
use crate::print;
use crate::print::lines::{Lines, Source};

/// The file in the state folder.
const FILE: &str = "history.db";

/// How long the output of an action is held back. The output of a shorter action is only in the
/// account.
const FIRST: Duration = Duration::from_secs(1);

/// The most lines that are held back.
const KEPT: usize = 1_000;

/// Returns the file with the record.
pub(crate) fn history_file(state: &Path) -> PathBuf {
    state.join(FILE)
}

/// Records the events and prints them. A program gets a line of data for each event, and a person
/// gets the output of long actions.
#[derive(Debug)]
pub(crate) struct Observing {
    mode: &'static str,
    site: String,
    began: SystemTime,
    file: PathBuf,
    record: Mutex<Record>,
    /// Prints lines of data, if the user asks for data.
    lines: Option<Lines>,
    is_quiet: bool,
    /// The output of the actions that run, by resource.
    talks: Mutex<HashMap<String, Talk>>,
}

/// The state of the record. The first event begins it, or else the end.
#[derive(Debug)]
enum Record {
    Fresh,
    Written(Recorder),
    /// It has ended, or cannot be written.
    Over,
}

/// The output of the actions of a resource that is not printed yet.
#[derive(Debug)]
struct Talk {
    began: Instant,
    lines: Vec<String>,
    /// How many lines had no room.
    left_out: usize,
}

/// A line of data.
#[derive(Debug, Serialize)]
#[serde(tag = "event", rename_all = "snake_case")]
enum Line<'a> {
    /// An action has said something.
    Said { resource: &'a str, line: &'a str },
    /// Apply has ended with a resource.
    Resource(&'a Accounted),
}

impl Observing {
    /// Returns one that begins its record at the first event.
    pub(crate) fn new(
        global: &Global,
        (mode, paths): (&'static str, &[PathBuf]),
        state: &Path,
    ) -> Self {
        let paths: Vec<_> = paths.iter().map(|path| path.to_string_lossy()).collect();
        let source = if mode == RUN { Source::Agent } else { Source::Apply };
        let lines = Lines::new(global.output, source);
        Self {
            mode,
            site: paths.join(" "),
            began: now(),
            file: history_file(state),
            record: Mutex::new(Record::Fresh),
            lines: (global.output.is_data()).then_some(lines),
            is_quiet: global.quiet,
            talks: Mutex::default(),
        }
    }

    /// Waits until all lines of data are printed; under `run` for a second at most.
    pub(crate) fn end_lines(&self) {
        self.lines.iter().for_each(Lines::end);
    }

    /// Ends the record.
    pub(crate) fn end_record(&self, outcome: &'static str) {
        let mut record = self.record.lock();
        self.begin(&mut record);
        if let Record::Written(recorder) = std::mem::replace(&mut *record, Record::Over) {
            recorder.end(outcome, now());
        }
    }

    fn begin(&self, record: &mut Record) {
        if !matches!(record, Record::Fresh) {
            return;
        }
        *record = match Recorder::begin(&self.file, (self.mode, &self.site), self.began) {
            Ok(recorder) => Record::Written(recorder),
            Err(error) => {
                let error: &dyn std::error::Error = &error;
                tracing::warn!(error, "what happens is not put on record");
                Record::Over
            }
        };
    }
}

/// A command that fails or is given up has no other end than this one.
impl Drop for Observing {
    fn drop(&mut self) {
        if let Record::Written(recorder) = std::mem::replace(self.record.get_mut(), Record::Over) {
            recorder.end("interrupted", now());
        }
    }
}

impl Observer for Observing {
    fn said(&self, resource: &str, line: &str) {
        if let Some(lines) = &self.lines {
            return lines.print(&Line::Said { resource, line });
        }
        // Under `run` the output is in the log.
        if self.is_quiet || self.mode == RUN {
            return;
        }
        let mut talks = self.talks.lock();
        let talk = talks.entry(resource.to_owned());
        let talk =
            talk.or_insert_with(|| Talk { began: Instant::now(), lines: Vec::new(), left_out: 0 });
        if talk.lines.len() < KEPT {
            talk.lines.push(line.to_owned());
        } else {
            talk.left_out += 1;
        }
        if talk.began.elapsed() >= FIRST {
            let left_out = std::mem::take(&mut talk.left_out);
            let mut lines = talk.lines.drain(..);
            // If the stream is closed, nobody can read an error.
            drop(print::to_stderr(|out| {
                lines.try_for_each(|line| writeln!(out, "{resource}: {line}"))?;
                match left_out {
                    0 => Ok(()),
                    _ => writeln!(out, "{resource}: ... some lines are only in the account"),
                }
            }));
        }
    }

    fn happened(&self, event: &Event) {
        if let Some(lines) = &self.lines
            && (self.mode == RUN || event.event == EventKind::Released)
        {
            lines.print(event);
        }
        let mut record = self.record.lock();
        self.begin(&mut record);
        if let Record::Written(recorder) = &*record {
            recorder.note(recorded(event), now());
        }
    }

    fn accounted(&self, accounted: &Accounted) {
        self.talks.lock().remove(&accounted.name);
        if let Some(lines) = &self.lines {
            lines.print(&Line::Resource(accounted));
        }
    }
}

/// The mode of an agent.
pub(crate) const RUN: &str = "run";

fn recorded(happened: &Event) -> history::Event {
    let Event { event, resource, kind, differences, actions, error, why, took_ms, .. } =
        happened.clone();
    let Event { changes, done, notified_by, asked_by, pid, .. } = happened;
    let has_lists = !changes.is_empty() || !done.is_empty() || !notified_by.is_empty();
    let has_details = has_lists || asked_by.is_some() || pid.is_some();
    let mut details = json!({"changes": changes, "done": done, "notified_by": notified_by});
    if let Some(asked_by) = asked_by {
        details["asked_by"] = json!(asked_by);
    }
    if let Some(pid) = pid {
        details["pid"] = json!(pid);
    }
    let (event, details) = (event.word().to_owned(), has_details.then_some(details));
    history::Event { event, resource, kind, differences, actions, error, why, took_ms, details }
}

/// Returns the time of the wall clock.
#[expect(clippy::disallowed_methods, reason = "a record says when things have happened")]
pub(crate) fn now() -> SystemTime {
    SystemTime::now()
}

#[cfg(test)]
mod tests {
    use crankcase_resources::Event;
    use serde_json::json;

    use super::recorded;

    /// An event that has all fields.
    const WHOLE: &str = concat!(
        r#"{"event":"repaired","resource":"page","type":"file","differences":"mode: 1 -> 2","#,
        r#""changes":[{"attribute":"mode","old":1,"new":2}],"actions":["adjust"],"#,
        r#""done":[{"action":{"name":"adjust","arguments":{"to":2},"changes":["mode"]},"#,
        r#""log":["a line"]}],"notified_by":["conf"],"error":"no luck","why":"apply","took_ms":3}"#,
    );

    /// The same event on record.
    const ON_RECORD: &str = concat!(
        r#"{"event":"repaired","resource":"page","type":"file","differences":"mode: 1 -> 2","#,
        r#""actions":["adjust"],"error":"no luck","why":"apply","took_ms":3,"#,
        r#""details":{"changes":[{"attribute":"mode","old":1,"new":2}],"#,
        r#""done":[{"action":{"name":"adjust","arguments":{"to":2},"changes":["mode"]},"#,
        r#""log":["a line"]}],"notified_by":["conf"]}}"#,
    );

    /// An event that has only the fields that every event has.
    const BARE: &str =
        r#"{"event":"released","resource":"page","type":"file","why":"it has left","took_ms":0}"#;

    /// The start of a program.
    const STARTED: &str = concat!(
        r#"{"event":"restarted","resource":"web","type":"process","#,
        r#""asked_by":{"who":"ada","why":"a test"},"pid":7,"why":"it","took_ms":0}"#,
    );

    #[test]
    fn the_record_of_a_program_has_its_pid_and_who_asked() -> serde_json::Result<()> {
        let happened: Event = serde_json::from_str(STARTED)?;

        let details = recorded(&happened).details.unwrap_or_default();

        assert_eq!(serde_json::to_string(&happened)?, STARTED);
        let expected = (&json!(7), &json!({"who": "ada", "why": "a test"}));
        assert_eq!((&details["pid"], &details["asked_by"]), expected);
        Ok(())
    }

    #[test]
    fn an_event_and_its_record_are_written_as_before() -> serde_json::Result<()> {
        for (written, on_record) in [(WHOLE, ON_RECORD), (BARE, BARE)] {
            let happened: Event = serde_json::from_str(written)?;

            assert_eq!(serde_json::to_string(&happened)?, written);
            assert_eq!(serde_json::to_string(&recorded(&happened))?, on_record);
        }
        Ok(())
    }
}
