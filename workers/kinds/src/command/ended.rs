//! How a command has ended, in words.

use std::borrow::Cow;
use std::io;
use std::path::PathBuf;
use std::time::Duration;

use crankcase_resources::BoxError;
use crankcase_resources::dynamic::cut_after;
use crankcase_workers::{JobError, ProcessError};

/// How many of the last lines of a command an error shows, and how many characters of each.
const LAST_LINES: usize = 3;
const LAST_LINE: usize = 200;

/// How much of the beginning and of the end of an output is logged, in bytes.
pub(crate) const LOGGED: usize = 32 * 1024;

/// Says what a command wrote last, for the end of an error; nothing if it wrote nothing.
pub(crate) fn last_lines(text: &str) -> String {
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    let lines: Vec<_> = lines.map(|line| cut_after(line, LAST_LINE)).collect();
    let last = &lines[lines.len().saturating_sub(LAST_LINES)..];
    if last.is_empty() { String::new() } else { format!("; it said last: {}", last.join(" / ")) }
}

/// Returns the beginning and the end of an output for the log, in whole lines: a part of a secret could not be
/// recognised as one.
pub(crate) fn ends(output: &str) -> Cow<'_, str> {
    if output.len() <= 2 * LOGGED {
        return output.into();
    }
    let (head, tail) = (&output[..output.floor_char_boundary(LOGGED)], output.len() - LOGGED);
    let head = &head[..head.rfind('\n').map_or(0, |end| end + 1)];
    let tail = &output[output.ceil_char_boundary(tail)..];
    let tail = tail.split_once('\n').map_or("", |(_, tail)| tail);
    format!("{head}... the middle of the output is left out ...\n{tail}").into()
}

/// Why a command did not end by itself.
#[derive(Debug, thiserror::Error)]
pub(crate) enum RunError {
    #[error("folder {cwd:?} to run in does not exist")]
    MissingFolder { cwd: PathBuf },
    #[error("cannot run in {cwd:?}: it is no folder")]
    NoFolder { cwd: PathBuf },
    #[error("cannot run {program:?}: there is no {what} {account:?}")]
    NoAccount { program: String, what: &'static str, account: String },
    #[error("cannot run {program:?}")]
    Start { program: String, source: BoxError },
    #[error("cannot follow {program:?}")]
    Follow { program: String, source: io::Error },
    #[error("it took longer than {} and was ended{}", humantime::format_duration(*limit), last_lines(output))]
    TimedOut { limit: Duration, output: String },
    #[error("it was ended because apply was told to stop")]
    Stopped { output: String },
}

impl RunError {
    /// Returns the error of a command that cannot be started.
    pub(crate) fn start(program: &str, error: ProcessError) -> Self {
        let program = program.to_owned();
        match error {
            ProcessError::Folder { folder: cwd, source, .. } => match source.kind() {
                io::ErrorKind::NotADirectory => Self::NoFolder { cwd },
                _ => Self::MissingFolder { cwd },
            },
            ProcessError::NoAccount { what, account, .. } => {
                Self::NoAccount { program, what, account }
            }
            ProcessError::Execute { source, .. } => Self::Start { program, source: source.into() },
            error => Self::Start { program, source: error.into() },
        }
    }

    /// Returns the error of a command that did not end by itself.
    pub(crate) fn new(program: &str, error: JobError) -> Self {
        match error {
            JobError::Start(error) => Self::start(program, error),
            JobError::TimedOut { limit, output } => Self::TimedOut { limit, output },
            JobError::Stopped { output } => Self::Stopped { output },
            JobError::Follow(source) => Self::Follow { program: program.to_owned(), source },
            error => Self::Start { program: program.to_owned(), source: error.into() },
        }
    }
}
