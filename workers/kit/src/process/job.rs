//! A command that is run to its end for the sake of its output.

use std::future::pending;
use std::io;
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::time::Duration;

use crankcase_engine::Stop;
use tokio::process::{ChildStderr, ChildStdout};

use super::config::ProcessConfig;
use super::error::ProcessError;
use super::group::ProcessGroup;
use super::job_output::{JobOutput, Told, Unread};
use super::ledger::Ledger;
use super::stop_signal::StopSignal;

/// A command that is run to its end, and whose output is wanted.
///
/// [`Process`](crate::Process) is for one that is to stay up.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Job {
    /// What is run.
    pub process: ProcessConfig,
    /// How long it may take.
    pub timeout: Duration,
    /// How much of the beginning and of the end of each output is kept, in bytes. Default 32 KiB each.
    pub kept: (usize, usize),
    /// The most bytes that it may write to stdout; all of them are kept. If it writes more, it is ended.
    /// Default no limit.
    pub most: Option<usize>,
    /// Whether what it has left behind in its process group is killed once it has ended. Default false.
    pub ends_children: bool,
}

/// A command that has ended by itself.
#[derive(Debug)]
#[non_exhaustive]
pub struct Finished {
    /// How it has ended.
    pub status: ExitStatus,
    /// What it has written to stdout. What is not UTF-8 is replaced. If not all was kept, the middle is
    /// left out in whole lines, and its bytes are counted.
    pub stdout: String,
    /// The same of stderr.
    pub stderr: String,
    /// Whether all that is kept of stdout is UTF-8.
    pub is_text: bool,
    /// How many bytes of stdout were not kept.
    pub left_out: u64,
    /// Whether all that is kept of stderr is UTF-8.
    pub stderr_is_text: bool,
    /// How many bytes of stderr were not kept.
    pub stderr_left_out: u64,
}

impl Finished {
    /// Says how it has ended.
    pub fn end(&self) -> String {
        match (self.status.code(), self.status.signal()) {
            (Some(code), _) => format!("exited with code {code}"),
            (None, Some(signal)) => format!("was ended by signal {signal}"),
            (None, None) => "ended for an unknown reason".to_owned(),
        }
    }
}

/// Why a command did not end by itself.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum JobError {
    /// It could not be started.
    #[error(transparent)]
    Start(ProcessError),
    /// It could not be followed.
    #[error("cannot follow it")]
    Follow(#[source] io::Error),
    /// It took too long, and was ended.
    #[error("it took longer than {limit:?} and was ended")]
    TimedOut {
        /// How long it might take.
        limit: Duration,
        /// What it has written, stdout first.
        output: String,
    },
    /// It has written too much to stdout, and was ended.
    #[error("it wrote more than {most} bytes and was ended")]
    TooMuch {
        /// How much it might write.
        most: usize,
        /// What it has written to stderr.
        stderr: String,
    },
    /// It was ended because whoever has asked for it was told to stop.
    #[error("it was ended because it was told to stop")]
    Stopped {
        /// What it has written, stdout first.
        output: String,
    },
}

impl Job {
    /// Returns a command that may take this long.
    pub fn new(process: ProcessConfig, timeout: Duration) -> Self {
        let kept = (32 * 1024, 32 * 1024);
        Self { process, timeout, kept, most: None, ends_children: false }
    }

    /// Sets how much of the beginning and of the end of each output is kept, in bytes.
    #[must_use]
    pub fn kept(self, head: usize, tail: usize) -> Self {
        Self { kept: (head, tail), ..self }
    }

    /// Sets how much it may write to stdout, in bytes.
    #[must_use]
    pub fn at_most(self, bytes: usize) -> Self {
        Self { most: Some(bytes), ..self }
    }

    /// Has what it leaves behind in its process group killed once it has ended.
    #[must_use]
    pub fn with_children(self) -> Self {
        Self { ends_children: true, ..self }
    }

    /// Runs the command in a process group of its own, to its end. `told` is told of each line of stdout,
    /// and of stderr, at once.
    ///
    /// After the timeout, when `stop` is told or when it has written too much, the group gets the config's
    /// stop signal and, if that does not end it within its grace, KILL. Processes that a finished command
    /// leaves behind run on, unless they are to end with it; what they write later is lost. It is on
    /// record while it runs, if there is a ledger.
    ///
    /// # Errors
    ///
    /// When it does not end by itself. How it ends by itself is no error.
    ///
    /// # Panics
    ///
    /// Panics outside of a tokio runtime with its I/O and time drivers enabled.
    ///
    /// # Cancel safety
    ///
    /// When it is dropped, the group is killed.
    pub async fn run(
        &self,
        ledger: Option<&Ledger>,
        stop: &Stop,
        told: (Option<Told<'_>>, Option<Told<'_>>),
    ) -> Result<Finished, JobError> {
        let spawned = ProcessGroup::spawn(&self.process, ledger).await;
        let mut group = spawned.map_err(JobError::Start)?;
        let (stdout, stderr) = group.take_output();
        let stdout = match self.most {
            Some(most) => JobOutput::new(stdout, (most, 0), told.0).limited(),
            None => JobOutput::new(stdout, self.kept, told.0),
        };
        let mut outputs = Outputs { stdout, stderr: JobOutput::new(stderr, self.kept, told.1) };
        let cut = tokio::select! {
            biased;
            ended = outputs.read_until(group.leader_ended()) => match ended {
                Ok(()) => {
                    let status = match self.ends_children {
                        true => group.finish().await,
                        false => group.release().await,
                    };
                    return Ok(outputs.finished(status.map_err(JobError::Follow)?));
                }
                Err(Unread::TooMuch(most)) => Cut::TooMuch(most),
                Err(Unread::Failed(error)) => return Err(JobError::Follow(error)),
            },
            () = stop.wait() => Cut::Stopped,
            () = tokio::time::sleep(self.timeout) => Cut::TimedOut(self.timeout),
        };
        self.end(&mut group, &mut outputs).await;
        Err(match cut {
            Cut::TooMuch(most) => JobError::TooMuch { most, stderr: outputs.stderr.text() },
            Cut::Stopped => JobError::Stopped { output: outputs.text() },
            Cut::TimedOut(limit) => JobError::TimedOut { limit, output: outputs.text() },
        })
    }

    /// Ends the group. Whether the leader has ended or not, it is not reaped before, so that the group can
    /// be killed: it may have left children that do not end.
    async fn end(&self, group: &mut ProcessGroup, outputs: &mut Outputs<'_>) {
        let ProcessConfig { name, stop_signal, grace, .. } = &self.process;
        let signal: StopSignal = *stop_signal;
        let asked = outputs.read_until(group.ask_to_end(signal, *grace)).await;
        let reaped = outputs.read_until(group.reap()).await;
        if let Err(Unread::Failed(error)) = asked.map(drop).and(reaped.map(drop)) {
            tracing::warn!(process = name, %error, "cannot end a command");
        }
    }
}

/// Why a command is ended.
enum Cut {
    TooMuch(usize),
    Stopped,
    TimedOut(Duration),
}

/// What a command has written.
struct Outputs<'a> {
    stdout: JobOutput<'a, ChildStdout>,
    stderr: JobOutput<'a, ChildStderr>,
}

impl Outputs<'_> {
    /// Reads until something has happened, and then what is there. Cancel safe if `happened` is.
    async fn read_until<T>(
        &mut self,
        happened: impl Future<Output = io::Result<T>>,
    ) -> Result<T, Unread> {
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
            status,
            stdout: self.stdout.text(),
            stderr: self.stderr.text(),
            is_text: self.stdout.is_text(),
            left_out: self.stdout.left_out(),
            stderr_is_text: self.stderr.is_text(),
            stderr_left_out: self.stderr.left_out(),
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
