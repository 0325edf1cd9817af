use std::borrow::Cow;
use std::io;
use std::path::PathBuf;
use std::time::Duration;

use crankcase_resources::dynamic::cut_after;
use crankcase_resources::{BoxError, Context};
use crankcase_workers::{Finished, Job, JobError, ProcessError, Told};

use crate::command::Command;
use crate::exec::config::Exec;

/// How many of the last lines of a command an error shows, and how many characters of each.
const LAST_LINES: usize = 3;
const LAST_LINE: usize = 200;

/// How much of the beginning and of the end of an output is logged, in bytes.
const LOGGED: usize = 32 * 1024;

/// Says what a command wrote last, for the end of an error; nothing if it wrote nothing.
pub(super) fn last_lines(text: &str) -> String {
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    let lines: Vec<_> = lines.map(|line| cut_after(line, LAST_LINE)).collect();
    let last = &lines[lines.len().saturating_sub(LAST_LINES)..];
    if last.is_empty() { String::new() } else { format!("; it said last: {}", last.join(" / ")) }
}

/// Returns the beginning and the end of an output for the log, in whole lines: a part of a secret could not be
/// recognised as one.
pub(super) fn ends(output: &str) -> Cow<'_, str> {
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
pub(super) enum RunError {
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
    pub(super) fn start(program: &str, error: ProcessError) -> Self {
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

    fn new(program: &str, error: JobError) -> Self {
        match error {
            JobError::Start(error) => Self::start(program, error),
            JobError::TimedOut { limit, output } => Self::TimedOut { limit, output },
            JobError::Stopped { output } => Self::Stopped { output },
            JobError::Follow(source) => Self::Follow { program: program.to_owned(), source },
            error => Self::Start { program: program.to_owned(), source: error.into() },
        }
    }
}

/// Runs a command to its end; see [`Job::run`]. Passes each line of its output to the observer at once, unless the
/// command is a guard.
pub(super) async fn run(
    command: &Command,
    config: &Exec,
    (context, is_guard): (&Context, bool),
) -> Result<Finished, RunError> {
    let mut process = config.process(command);
    // The record of a command that runs has its name.
    process.name = context.secrets().redact(&process.name).into_owned();
    process.grace = config.grace.0;
    let program = process.command[0].to_string_lossy().into_owned();
    let say = |line: &str| context.said(line);
    let told = (!is_guard).then_some(&say as Told<'_>);
    let kept = config.max_output.0.div_ceil(2).max(LOGGED);
    let job = Job::new(process, config.timeout).kept(kept, kept);
    let run = job.run(context.ledger(), context.stop(), (told, told)).await;
    run.map_err(|error| RunError::new(&program, error))
}
