//! Lines of the log on stderr.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::time::Duration;

use crankcase_workers::printable_json;
use parking_lot::{Mutex, MutexGuard};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::OFlags;
use serde_json::json;
use tokio::time::Instant;
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::time::{FormatTime, SystemTime};

/// How long a reader that has stopped to read is waited for, once.
const PATIENCE: Duration = Duration::from_secs(1);

/// How much is written at a time: what says that it takes more takes as much, on Linux.
const PIECE: usize = 4096;

/// How a line is laid out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Layout {
    Human,
    Json,
}

/// Writes to stderr, but does not wait for ever where nobody reads: the log must not keep an agent
/// from its work, nor from its end. Lines that nobody reads are dropped, and then counted.
#[derive(Debug)]
pub(super) struct Stderr {
    layout: Layout,
    out: Mutex<Out>,
}

#[derive(Debug)]
struct Out {
    /// A pipe or a terminal opened once more, so that no write to it waits, and those of others who
    /// have it open are as before. None for what always takes more, and what cannot be opened.
    own: Option<File>,
    missed: Missed,
}

/// What was not written.
#[derive(Debug, Default)]
struct Missed {
    lines: u64,
    /// The last line that was is without its end.
    is_cut: bool,
}

impl Stderr {
    pub(super) fn new(layout: Layout) -> Self {
        Self { layout, out: Mutex::new(Out { own: reopened().ok(), missed: Missed::default() }) }
    }
}

#[expect(clippy::disallowed_methods, reason = "nothing is written")]
fn reopened() -> io::Result<File> {
    let stderr = File::from(io::stderr().as_fd().try_clone_to_owned()?);
    let kind = stderr.metadata()?.file_type();
    if !kind.is_fifo() && !kind.is_char_device() {
        return Err(io::ErrorKind::Unsupported.into());
    }
    let flags = (OFlags::NONBLOCK | OFlags::NOCTTY).bits().cast_signed();
    OpenOptions::new().write(true).custom_flags(flags).open("/proc/self/fd/2")
}

impl<'a> MakeWriter<'a> for Stderr {
    type Writer = Line<'a>;

    fn make_writer(&'a self) -> Line<'a> {
        Line { layout: self.layout, out: self.out.lock() }
    }
}

/// Writes one line.
#[derive(Debug)]
pub(super) struct Line<'a> {
    layout: Layout,
    out: MutexGuard<'a, Out>,
}

impl Write for Line<'_> {
    /// Takes the whole line, written or not: whoever logs can do nothing about it.
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        let Out { own, missed } = &mut *self.out;
        let mut until = Instant::now();
        if missed.lines == 0 {
            until += PATIENCE;
        } else {
            match put(own, note(missed, self.layout).as_bytes(), until) {
                Put::All => *missed = Missed::default(),
                put => {
                    missed.lines += 1;
                    missed.is_cut |= put == Put::Some;
                    return Ok(line.len());
                }
            }
        }
        let put = match self.layout {
            // A line for people is printable already, but for its colours.
            Layout::Human => put(own, line, until),
            Layout::Json => {
                put(own, printable_json(&String::from_utf8_lossy(line)).as_bytes(), until)
            }
        };
        missed.lines += u64::from(put != Put::All);
        missed.is_cut |= put == Put::Some;
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// How much of a text was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Put {
    All,
    Some,
    Nothing,
}

/// Writes a text, or what is taken of it until then.
#[expect(clippy::disallowed_methods, reason = "what is logged is printable")]
fn put(own: &mut Option<File>, text: &[u8], until: Instant) -> Put {
    let mut left = text;
    while !left.is_empty() {
        let piece = &left[..left.len().min(PIECE)];
        let stderr = io::stderr();
        let written = match own {
            Some(own) if is_ready(own.as_fd(), until) => own.write(piece),
            None if is_ready(stderr.as_fd(), until) => stderr.lock().write(piece),
            _ => break,
        };
        match written {
            Ok(0) => break,
            Ok(length) => left = &left[length..],
            Err(err) if err.kind() == io::ErrorKind::Interrupted => {}
            Err(err) if err.kind() == io::ErrorKind::WouldBlock && Instant::now() < until => {}
            Err(_) => break,
        }
    }
    match left.len() {
        0 => Put::All,
        length if length < text.len() => Put::Some,
        _ => Put::Nothing,
    }
}

/// Waits until more is taken; returns whether it is by then.
fn is_ready(out: BorrowedFd<'_>, until: Instant) -> bool {
    loop {
        let left = until.saturating_duration_since(Instant::now());
        let mut polled = [PollFd::from_borrowed_fd(out, PollFlags::OUT)];
        match poll(&mut polled, Timespec::try_from(left).ok().as_ref()) {
            Ok(ready) => return ready > 0,
            Err(rustix::io::Errno::INTR) => {}
            Err(_) => return false,
        }
    }
}

/// Says how many lines are missing, as other lines are written.
fn note(missed: &Missed, layout: Layout) -> String {
    let mut time = String::new();
    // A clock that cannot be read is no reason to say nothing.
    let _no_time = SystemTime.format_time(&mut Writer::new(&mut time));
    let (target, lines) = (module_path!(), missed.lines);
    let message = "lines of the log were dropped: nobody has read them in time";
    let end = if missed.is_cut { "\n" } else { "" };
    match layout {
        Layout::Json => {
            let fields = json!({ "message": message, "lines": lines });
            let note =
                json!({ "timestamp": time, "level": "WARN", "fields": fields, "target": target });
            format!("{end}{note}\n")
        }
        Layout::Human => format!("{end}{time}  WARN {message}; lines: {lines}\n"),
    }
}
