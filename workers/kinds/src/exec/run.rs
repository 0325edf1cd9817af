use std::future::pending;
use std::io;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::ExitStatus;
use std::time::Duration;

use crankcase_resources::{BoxError, Context, cut_after};
use crankcase_workers::{ProcessError, ProcessGroup, StopSignal};
use tokio::process::{ChildStderr, ChildStdout};

use crate::command::Command;
use crate::exec::config::{Exec, ExecState};
use crate::exec::output::Output;

/// How many of the last lines of a command an error shows, and how many characters of each.
const LAST_LINES: usize = 3;
const LAST_LINE: usize = 200;

/// Says what a command wrote last, for the end of an error; nothing if it wrote nothing.
pub(super) fn last_lines(text: &str) -> String {
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    let lines: Vec<_> = lines.map(|line| cut_after(line, LAST_LINE)).collect();
    let last = &lines[lines.len().saturating_sub(LAST_LINES)..];
    if last.is_empty() { String::new() } else { format!("; it said last: {}", last.join(" / ")) }
}

/// A command that has ended by itself.
#[derive(Debug)]
pub(super) struct Finished {
    /// The exit code; none if a signal ended it.
    pub(super) code: Option<i32>,
    signal: Option<i32>,
    pub(super) stdout: String,
    pub(super) stderr: String,
}

impl Finished {
    /// Returns what dependents see.
    pub(super) fn state(&self) -> ExecState {
        let (stdout, stderr) = (self.stdout.clone(), self.stderr.clone());
        ExecState { ran: true, exit_code: self.code, stdout, stderr }
    }

    /// Says how it ended.
    pub(super) fn end(&self) -> String {
        match (self.code, self.signal) {
            (Some(code), _) => format!("exited with code {code}"),
            (None, Some(signal)) => format!("was ended by signal {signal}"),
            (None, None) => "ended for an unknown reason".to_owned(),
        }
    }
}

/// Why a command did not end by itself.
#[derive(Debug, thiserror::Error)]
pub(super) enum RunError {
    #[error("folder {cwd:?} to run in does not exist")]
    MissingFolder { cwd: PathBuf },
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
    fn new(program: &str, error: ProcessError) -> Self {
        let source: BoxError = match error {
            ProcessError::Folder { folder, .. } => return Self::MissingFolder { cwd: folder },
            ProcessError::Execute { source, .. } => source.into(),
            error => error.into(),
        };
        Self::Start { program: program.to_owned(), source }
    }
}

/// Runs a command in a process group of its own, to its end.
///
/// After the timeout, or when it is told to stop, the group gets TERM and, if that does not end it
/// within the grace, KILL. Processes that a finished command leaves behind run on; what they write
/// later is lost. It is on record while it runs, if there is a ledger. Dropping the future kills the
/// group.
///
/// Those who watch are told of each line of its output at once, if it is no guard.
pub(super) async fn run(
    command: &Command,
    config: &Exec,
    (context, is_guard): (&Context, bool),
) -> Result<Finished, RunError> {
    let mut process = config.process(command);
    // The record of a command that runs has its name.
    process.name = context.secrets().redact(&process.name).into_owned();
    let program = &process.command[0].to_string_lossy().into_owned();
    let spawned = ProcessGroup::spawn(&process, context.ledger()).await;
    let mut group = spawned.map_err(|err| RunError::new(program, err))?;
    let mut outputs = Outputs::of(&mut group, (!is_guard).then_some(context));
    let follow = |source| RunError::Follow { program: program.clone(), source };
    let limit = tokio::select! {
        biased;
        ended = outputs.read_until(group.leader_ended()) => {
            ended.map_err(follow)?;
            let status = group.release().await.map_err(follow)?;
            return Ok(outputs.finished(status));
        }
        () = context.stop().wait() => None,
        () = tokio::time::sleep(config.timeout) => Some(config.timeout),
    };
    // Whether the leader has ended or not, it is not reaped, so that the group can be killed: it may
    // have left children that do not end.
    let asked = outputs.read_until(group.ask_to_end(StopSignal::Terminate, config.grace.0)).await;
    let reaped = outputs.read_until(group.reap()).await;
    if let Err(error) = asked.map(drop).and(reaped.map(drop)) {
        tracing::warn!(program, %error, "cannot end a command");
    }
    let output = outputs.text();
    Err(match limit {
        Some(limit) => RunError::TimedOut { limit, output },
        None => RunError::Stopped { output },
    })
}

/// What a command has written.
struct Outputs {
    stdout: Output<ChildStdout>,
    stderr: Output<ChildStderr>,
}

impl Outputs {
    fn of(group: &mut ProcessGroup, told: Option<&Context>) -> Self {
        let (stdout, stderr) = group.take_output();
        let stdout = Output::new(stdout, told.cloned());
        Self { stdout, stderr: Output::new(stderr, told.cloned()) }
    }

    /// Reads until something has happened, and then what is there. Cancel safe if `happened` is.
    async fn read_until<T>(
        &mut self,
        happened: impl Future<Output = io::Result<T>>,
    ) -> io::Result<T> {
        let Self { stdout, stderr } = self;
        let reading = async {
            tokio::try_join!(stdout.fill(), stderr.fill())?;
            // What has happened is still to come.
            pending().await
        };
        let happened = tokio::select! {
            biased;
            happened = happened => happened?,
            failed = reading => return failed,
        };
        stdout.drain()?;
        stderr.drain()?;
        Ok(happened)
    }

    fn finished(&self, status: ExitStatus) -> Finished {
        Finished {
            code: status.code(),
            signal: status.signal(),
            stdout: self.stdout.text(),
            stderr: self.stderr.text(),
        }
    }

    /// Returns both outputs, one after the other.
    fn text(&self) -> String {
        let mut text = self.stdout.text();
        if !text.is_empty() && !text.ends_with('\n') {
            text.push('\n');
        }
        text + &self.stderr.text()
    }
}
