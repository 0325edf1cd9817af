//! Logs what a process writes, line by line.

use std::fmt;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::sync::watch;
use tokio::time::{Instant, sleep};

use super::config::ProcessConfig;
use super::lines::{Line, Lines, Rate};
use super::log_file::LogFile;
use super::readiness::Readiness;
use super::spool::SpoolReader;
use super::stream::Stream;
use crate::condition::Condition;
use crate::moment::until;
use crate::printable::spaced;
use crate::secrets::Secrets;

const CHUNK: usize = 16 * 1024;

/// How long a stream must have kept to its rate for its flood to be over.
const CALM: Duration = Duration::from_secs(1);

/// The wait between two looks at a file of output: at first, and at most.
const PAUSES: (Duration, Duration) = (Duration::from_millis(5), Duration::from_millis(250));

/// How much of the last words is kept, in characters.
const MAX_WORDS: usize = 200;

/// The state of a process whose output is read from files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Writer {
    /// It may write more.
    Runs,
    /// It has written all.
    HasEnded,
    /// It may write more, for another agent to read.
    IsLeft,
}

/// What has come of the output so far.
#[derive(Debug, Clone, Default)]
pub(super) struct Counts {
    pub(super) lines: u64,
    pub(super) dropped_lines: u64,
    pub(super) cut_bytes: u64,
    /// The last line of stderr that was not empty.
    pub(super) last_words: Option<String>,
}

#[derive(Default)]
struct State {
    counts: Counts,
    condition: Condition,
    /// The streams whose lines are dropped at present.
    floods: Vec<Stream>,
}

/// What the readers of both streams share.
pub(super) struct Output {
    process: String,
    lines_per_second: u32,
    max_line: usize,
    secrets: Secrets,
    /// Where the lines are written, if they are not logged.
    file: Option<Arc<Mutex<LogFile>>>,
    /// A line with this text makes the process ready.
    expected: Option<String>,
    is_seen: watch::Sender<bool>,
    state: Mutex<State>,
    /// Held while the condition is told, so that what is told last is how it is. It is foreign code,
    /// and may look at the state.
    telling: Mutex<()>,
}

impl Output {
    pub(super) fn new(config: &ProcessConfig) -> Self {
        let expected = match &config.readiness {
            Readiness::Line(text) => Some(text.clone()),
            _ => None,
        };
        Self {
            process: config.name.clone(),
            lines_per_second: config.lines_per_second,
            max_line: config.max_line,
            secrets: config.secrets.clone(),
            file: config.log_file.as_ref().map(|path| Arc::new(Mutex::new(LogFile::new(path)))),
            expected,
            is_seen: watch::Sender::new(false),
            state: Mutex::default(),
            telling: Mutex::default(),
        }
    }

    /// Returns a view of whether the expected line was written.
    pub(super) fn is_seen(&self) -> watch::Receiver<bool> {
        self.is_seen.subscribe()
    }

    /// Returns a text without the secrets of the process.
    pub(super) fn redact(&self, text: &str) -> String {
        self.secrets.redact(text).into_owned()
    }

    pub(super) fn counts(&self) -> Counts {
        self.state.lock().counts.clone()
    }

    /// Says whom it tells of a flood from now on.
    pub(super) fn tell(&self, condition: Condition) {
        let (before, is_flooding) = {
            let mut state = self.state.lock();
            let before = std::mem::replace(&mut state.condition, condition);
            (before, !state.floods.is_empty())
        };
        drop(before);
        if is_flooding {
            self.tell_floods();
        }
    }

    /// Logs every line of `source` until it ends.
    ///
    /// It goes on reading when it logs nothing, so that the process never waits for its own log.
    pub(super) async fn log(self: Arc<Self>, stream: Stream, mut source: impl AsyncRead + Unpin) {
        let mut reader = Reader::new(&self, stream);
        let mut chunk = vec![0; CHUNK];
        loop {
            let calm = reader.calm_from();
            let read = tokio::select! {
                biased;
                read = source.read(&mut chunk) => read,
                () = until(calm) => {
                    reader.end_flood();
                    continue;
                }
            };
            match read {
                Ok(0) => break,
                Ok(length) => reader.take(&chunk[..length]).await,
                Err(err) => {
                    self.tell_unread(stream, &err);
                    break;
                }
            }
        }
        reader.finish().await;
    }

    /// Logs every line that comes to a file, until the process has ended and all is read.
    ///
    /// The kernel reports a change of a file only to a watch, and the number of watches is limited.
    /// So this looks at the file again and again, less often while nothing comes.
    pub(super) async fn follow(
        self: Arc<Self>,
        stream: Stream,
        mut file: SpoolReader,
        mut writer: watch::Receiver<Writer>,
    ) {
        let mut reader = Reader::new(&self, stream);
        self.tell_skipped(stream, file.skipped());
        let mut pause = PAUSES.0;
        loop {
            // Taken before the look, which sees all that was written by then.
            let before = *writer.borrow_and_update();
            let read = match file.next(reader.lines.pending()).await {
                Ok((same, read)) => {
                    file = same;
                    read
                }
                Err(err) => {
                    self.tell_unread(stream, &err);
                    break;
                }
            };
            match (before, read.is_empty()) {
                // The last bytes are not noted as read, so the next agent reads them.
                (Writer::IsLeft, _) => return reader.end_flood(),
                (_, false) => {
                    reader.take(&read).await;
                    pause = PAUSES.0;
                    continue;
                }
                (Writer::HasEnded, true) => break,
                (Writer::Runs, true) => {}
            }
            let calm = reader.calm_from();
            tokio::select! {
                biased;
                changed = writer.changed() => if changed.is_err() { return },
                () = until(calm) => reader.end_flood(),
                () = sleep(pause) => {}
            }
            pause = (pause * 2).min(PAUSES.1);
        }
        reader.finish().await;
    }

    fn tell_skipped(&self, stream: Stream, bytes: u64) {
        if bytes > 0 {
            let (process, stream) = (&*self.process, stream.name());
            tracing::warn!(process, stream, bytes, "output skipped");
        }
    }

    pub(super) fn tell_unread(&self, stream: Stream, err: &io::Error) {
        let (process, stream) = (&*self.process, stream.name());
        let error: &dyn std::error::Error = err;
        tracing::warn!(process, stream, error, "cannot read output");
    }

    /// Counts a line, and looks whether it is the expected one.
    fn note(&self, stream: Stream, line: &Line<'_>) {
        if let Some(expected) = &self.expected
            && line.text.contains(expected.as_str())
        {
            self.is_seen.send_replace(true);
        }
        let mut state = self.state.lock();
        state.counts.lines = state.counts.lines.saturating_add(1);
        let cut = u64::try_from(line.cut).unwrap_or(u64::MAX);
        state.counts.cut_bytes = state.counts.cut_bytes.saturating_add(cut);
        if stream == Stream::Stderr && !line.text.trim().is_empty() {
            let words = state.counts.last_words.get_or_insert_default();
            words.clear();
            words.extend(spaced(self.secrets.redact(line.text.trim()).as_ref()).take(MAX_WORDS));
        }
    }

    fn note_dropped(&self) {
        let mut state = self.state.lock();
        state.counts.dropped_lines = state.counts.dropped_lines.saturating_add(1);
    }

    fn set_flood(&self, stream: Stream, is_flooding: bool) {
        {
            let mut state = self.state.lock();
            state.floods.retain(|flooding| *flooding != stream);
            if is_flooding {
                state.floods.push(stream);
            }
        }
        self.tell_floods();
    }

    fn tell_floods(&self) {
        let _telling = self.telling.lock();
        let (condition, flooding) = {
            let state = self.state.lock();
            (state.condition.clone(), state.floods.first().copied())
        };
        let Some(stream) = flooding else { return condition.good() };
        let (name, limit) = (stream.name(), self.lines_per_second);
        condition.degraded(&format!(
            "it writes more than {limit} lines per second to {name}; what is above is dropped"
        ));
    }
}

impl fmt::Debug for Output {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Output").field("counts", &self.counts()).finish_non_exhaustive()
    }
}

/// Reads one stream.
struct Reader<'a> {
    output: &'a Output,
    stream: Stream,
    lines: Lines,
    gate: Gate,
    /// The lines that are to be written to the file, if there is one.
    unwritten: Vec<u8>,
    /// Whether the last lines could not be written.
    has_failed: bool,
}

/// What decides over the lines of a stream.
struct Gate {
    rate: Rate,
    /// When the last line was dropped, while that is a flood.
    flood: Option<Instant>,
}

impl<'a> Reader<'a> {
    fn new(output: &'a Output, stream: Stream) -> Self {
        let rate = Rate::new(output.lines_per_second, Instant::now());
        let lines = Lines::new(output.max_line);
        let gate = Gate { rate, flood: None };
        Self { output, stream, lines, gate, unwritten: Vec::new(), has_failed: false }
    }

    async fn take(&mut self, bytes: &[u8]) {
        let Self { output, stream, lines, gate, unwritten, .. } = self;
        lines.push(bytes, |line| log(output, *stream, gate, unwritten, &line));
        self.write().await;
    }

    async fn finish(mut self) {
        let Self { output, stream, lines, gate, unwritten, .. } = &mut self;
        lines.finish(|line| log(output, *stream, gate, unwritten, &line));
        self.end_flood();
        self.write().await;
    }

    /// Writes the unwritten lines to the file. Lines that cannot be written are lost, and the log
    /// says so once.
    async fn write(&mut self) {
        let Some(file) = self.output.file.clone().filter(|_| !self.unwritten.is_empty()) else {
            return;
        };
        let lines = std::mem::take(&mut self.unwritten);
        let append = move || file.lock().append(&lines);
        let appended = tokio::task::spawn_blocking(append).await;
        let failed = appended.unwrap_or_else(|err| Err(io::Error::other(err))).err();
        let had_failed = std::mem::replace(&mut self.has_failed, failed.is_some());
        if let Some(err) = failed.filter(|_| !had_failed) {
            let (process, stream) = (&*self.output.process, self.stream.name());
            let error: &dyn std::error::Error = &err;
            tracing::warn!(process, stream, error, "cannot write output to its file");
        }
    }

    /// Returns when the flood is over if no more lines are dropped.
    fn calm_from(&self) -> Option<Instant> {
        self.gate.flood.map(|last| last + CALM)
    }

    fn end_flood(&mut self) {
        tell_dropped(self.output, self.stream, &mut self.gate);
        if self.gate.flood.take().is_some() {
            self.output.set_flood(self.stream, false);
        }
    }
}

/// Logs a line, or has it written to the file, or drops and counts it.
fn log(output: &Output, stream: Stream, gate: &mut Gate, unwritten: &mut Vec<u8>, line: &Line<'_>) {
    output.note(stream, line);
    let now = Instant::now();
    if !gate.rate.admit(now) {
        output.note_dropped();
        // Without a rate all is dropped, as was asked for.
        if output.lines_per_second > 0 && gate.flood.replace(now).is_none() {
            output.set_flood(stream, true);
        }
        return;
    }
    tell_dropped(output, stream, gate);
    let Line { text, cut } = line;
    let text = output.secrets.redact(text);
    if output.file.is_some() {
        unwritten.extend_from_slice(text.as_bytes());
        unwritten.push(b'\n');
        return;
    }
    let (process, stream, line) = (&*output.process, stream.name(), &*text);
    if *cut == 0 {
        tracing::info!(process, stream, line, "output");
    } else {
        tracing::info!(process, stream, line, cut, "output");
    }
}

fn tell_dropped(output: &Output, stream: Stream, gate: &mut Gate) {
    let lines = gate.rate.take_dropped();
    if lines > 0 {
        tracing::warn!(process = output.process, stream = stream.name(), lines, "output dropped");
    }
}
