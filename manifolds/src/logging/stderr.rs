//! Lines of the log on stderr.

use std::io::{self, StderrLock, Write};
use std::os::fd::AsFd;
use std::time::Duration;

use parking_lot::{Mutex, MutexGuard};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::retry_on_intr;
use serde_json::json;
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::time::{FormatTime, SystemTime};

/// How long a reader that has stopped to read is waited for, once.
const PATIENCE: Duration = Duration::from_secs(1);

/// How much a pipe takes at once if it takes anything: Linux says that it does when a page is free.
const PIECE: usize = 4096;

/// Writes to stderr, but does not wait for ever where nobody reads: the log must not keep an agent
/// from its work, nor from its end. Lines that nobody reads are dropped, and then counted.
#[derive(Debug)]
pub(super) struct Stderr {
    is_json: bool,
    missed: Mutex<Missed>,
}

/// What was not written.
#[derive(Debug, Default)]
struct Missed {
    lines: u64,
    /// The last line that was is without its end.
    is_cut: bool,
}

impl Stderr {
    pub(super) fn new(is_json: bool) -> Self {
        Self { is_json, missed: Mutex::default() }
    }
}

impl<'a> MakeWriter<'a> for Stderr {
    type Writer = Line<'a>;

    fn make_writer(&'a self) -> Line<'a> {
        Line { is_json: self.is_json, missed: self.missed.lock(), stderr: io::stderr().lock() }
    }
}

/// Writes one line.
#[derive(Debug)]
pub(super) struct Line<'a> {
    is_json: bool,
    missed: MutexGuard<'a, Missed>,
    stderr: StderrLock<'a>,
}

impl Write for Line<'_> {
    /// Takes the whole line, written or not: whoever logs can do nothing about it.
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        let mut patience = PATIENCE;
        if self.missed.lines > 0 {
            patience = Duration::ZERO;
            let note = note(&self.missed, self.is_json);
            if self.put(note.as_bytes(), patience) {
                *self.missed = Missed::default();
            }
        }
        for (index, piece) in line.chunks(PIECE).enumerate() {
            if !self.put(piece, patience) {
                self.missed.lines += 1;
                self.missed.is_cut |= index > 0;
                break;
            }
        }
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.stderr.flush()
    }
}

impl Line<'_> {
    /// Writes a piece if stderr takes it, waiting for that no longer than this; returns whether it did.
    fn put(&mut self, piece: &[u8], patience: Duration) -> bool {
        let mut polled = [PollFd::from_borrowed_fd(self.stderr.as_fd(), PollFlags::OUT)];
        let patience = Timespec::try_from(patience).ok();
        let ready = retry_on_intr(|| poll(&mut polled, patience.as_ref()));
        ready.is_ok_and(|ready| ready > 0) && self.stderr.write_all(piece).is_ok()
    }
}

/// Says how many lines are missing.
fn note(missed: &Missed, is_json: bool) -> String {
    let mut time = String::new();
    // A clock that cannot be read is no reason to say nothing.
    let _no_time = SystemTime.format_time(&mut Writer::new(&mut time));
    let (target, lines) = (module_path!(), missed.lines);
    let message = "lines of the log were dropped: nobody has read them in time";
    let end = if missed.is_cut { "\n" } else { "" };
    if is_json {
        let fields = json!({ "message": message, "lines": lines });
        let note =
            json!({ "timestamp": time, "level": "WARN", "fields": fields, "target": target });
        format!("{end}{note}\n")
    } else {
        format!("{end}{time}  WARN {target}: {message} lines={lines}\n")
    }
}
