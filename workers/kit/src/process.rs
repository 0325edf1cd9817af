//! One external command, supervised in a process group of its own.

use std::io;
use std::process::Stdio;
use std::time::Duration;

use crankcase_engine::{Exit, Outcome, Stop, Worker};
use tokio::process::Command;
use tokio::task::JoinSet;
use tokio::time::timeout;

pub use self::config::{ProcessConfig, StopSignal};
pub use self::error::ProcessError;
pub use self::ledger::{Ledger, LedgerError};
pub use self::leftovers::{Fate, Leftover, end_leftovers};

use self::group::Group;
use self::ledger::{MARK, Record};
use self::output::Stream;

mod config;
mod error;
mod group;
mod identity;
mod ledger;
mod leftovers;
mod lines;
mod output;

/// How long the output is read after the group is gone, while an escaped process holds it open.
const DRAIN: Duration = Duration::from_secs(1);

/// The variables that every process has, and their values where the agent has none itself.
const ENVIRONMENT: [(&str, &str); 3] =
    [("PATH", "/usr/local/bin:/usr/bin:/bin"), ("HOME", "/"), ("LANG", "C.UTF-8")];

/// A worker that supervises one external command in a process group of its own.
///
/// The command has a clean environment, no stdin, and its output is logged line by line as events
/// with the target `crankcase_workers::process::output` and the fields `process`, `stream`, `line`
/// and, for a line that was longer than 8 KiB, `cut`: the number of bytes left out. A last line
/// without an end is logged at the end of the stream.
///
/// # Guarantees
///
/// - However the worker ends, stopped, failed or dropped, no process in the group outlives it, and
///   the leader is reaped. Processes that have left the group are not touched; when they hold the
///   output open, it is read for 1 s more.
/// - Told to stop, it sends the stop signal to the group and waits for the leader; what is left of
///   the group when the leader has ended, or after the grace period, is killed. It then is done,
///   whatever the status.
/// - Every other end of the leader is a failure with its status, also status 0.
///
/// # Examples
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use crankcase_engine::{Stop, Worker};
/// use crankcase_workers::{Process, ProcessConfig};
///
/// let config = ProcessConfig::new("hello", vec!["echo".into(), "hello".into()]);
/// let process = Process::spawn(config, None).await?;
/// let (_stopper, stop) = Stop::pair();
/// let exit = process.run(stop).await.unwrap_err();
/// assert_eq!(exit.to_string(), r#"process "hello" ended with exit status: 0"#);
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
#[must_use = "dropping it kills the process"]
pub struct Process {
    config: ProcessConfig,
    group: Group,
}

impl Process {
    /// Spawns the command; it runs when this returns.
    ///
    /// With a ledger it is on record as long as it runs, so that
    /// [`end_leftovers`](crate::end_leftovers) finds it if the agent is killed.
    ///
    /// # Errors
    ///
    /// Returns an error if the configuration is invalid, or the command cannot be recorded or
    /// executed; no process is left.
    ///
    /// # Panics
    ///
    /// Panics outside of a tokio runtime with its I/O driver enabled.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: when it is dropped, no process is left.
    pub async fn spawn(
        config: ProcessConfig,
        ledger: Option<&Ledger>,
    ) -> Result<Self, ProcessError> {
        config
            .validate()
            .map_err(|source| ProcessError::Config { name: config.name.clone(), source })?;
        let record = match ledger {
            Some(ledger) => Some(begin(&config.name, ledger.clone()).await?),
            None => None,
        };
        let mut command = command(&config, record.as_ref());
        let child = command.spawn().map_err(|source| cannot_execute(&config, source))?;
        let mut group =
            Group::new(child, record).map_err(|source| supervise(&config.name, source))?;
        if let Some(record) = group.take_record() {
            let id = group.id();
            let (record, result) = blocking(&config.name, move || record.spawned(id)).await?;
            group.set_record(record);
            result.map_err(|source| not_recorded(&config.name, source))?;
        }
        tracing::debug!(process = config.name, pid = group.id().as_raw_pid(), "process spawned");
        Ok(Self { config, group })
    }

    /// Returns the pid of the leader, which is the group's id.
    pub fn pid(&self) -> i32 {
        self.group.id().as_raw_pid()
    }

    /// Waits until the leader ends by itself (`false`), or was told to and did, or did not in time
    /// (`true`).
    async fn supervise(&self, stop: &Stop) -> io::Result<bool> {
        tokio::select! {
            biased;
            () = stop.wait() => {}
            ended = self.group.leader_ended() => return ended.map(|()| false),
        }
        self.group.ask_to_end(self.config.stop_signal.number())?;
        match timeout(self.config.grace, self.group.leader_ended()).await {
            Ok(ended) => ended?,
            Err(_) => {
                let (process, grace) = (&self.config.name, self.config.grace);
                tracing::warn!(process, ?grace, "process killed after its grace period");
            }
        }
        Ok(true)
    }

    /// Logs stdout and stderr until they end.
    fn log_output(&mut self) -> JoinSet<()> {
        let stream = |name| Stream {
            process: self.config.name.clone(),
            name,
            lines_per_second: self.config.lines_per_second,
        };
        let mut readers = JoinSet::new();
        let (stdout, stderr) = self.group.take_output();
        if let Some(stdout) = stdout {
            readers.spawn(stream("stdout").log(stdout));
        }
        if let Some(stderr) = stderr {
            readers.spawn(stream("stderr").log(stderr));
        }
        readers
    }
}

impl Worker for Process {
    async fn run(mut self, stop: Stop) -> Outcome {
        let mut readers = self.log_output();
        let supervised = self.supervise(&stop).await;
        let reaped = self.group.reap().await;
        let name = &self.config.name;
        let drained = timeout(DRAIN, async { while readers.join_next().await.is_some() {} }).await;
        if drained.is_err() {
            tracing::warn!(process = name, "output held open by a process outside of the group");
        }
        let was_stopped = supervised.map_err(|source| supervise(name, source))?;
        let status = reaped.map_err(|source| supervise(name, source))?;
        tracing::debug!(process = name, %status, was_stopped, "process ended");
        if was_stopped {
            return Ok(());
        }
        Err(Exit::failed(ProcessError::Exited { name: name.clone(), status }))
    }
}

fn command(config: &ProcessConfig, record: Option<&Record>) -> Command {
    let mut command = Command::new(config.program());
    command
        .args(config.command.iter().skip(1))
        .env_clear()
        .envs(ENVIRONMENT.map(|(name, default)| {
            (name, std::env::var_os(name).unwrap_or_else(|| default.into()))
        }))
        .envs(&config.environment)
        .current_dir(&config.folder)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0);
    if let Some(record) = record {
        command.env(MARK, record.token());
    }
    command
}

async fn begin(name: &str, ledger: Ledger) -> Result<Record, ProcessError> {
    let owned = name.to_owned();
    let begun = blocking(name, move || ledger.begin(&owned)).await?;
    begun.map_err(|source| not_recorded(name, source))
}

/// Runs `work`, which waits for the disk, where it holds up no other task.
async fn blocking<T: Send + 'static>(
    name: &str,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, ProcessError> {
    let done = tokio::task::spawn_blocking(work).await;
    done.map_err(|err| supervise(name, io::Error::other(err)))
}

/// Tells a folder that cannot be entered from a program that cannot be executed.
fn cannot_execute(config: &ProcessConfig, source: io::Error) -> ProcessError {
    let (name, folder) = (config.name.clone(), config.folder.clone());
    match std::fs::metadata(&folder) {
        Err(source) => ProcessError::Folder { name, folder, source },
        Ok(metadata) if !metadata.is_dir() => {
            ProcessError::Folder { name, folder, source: io::ErrorKind::NotADirectory.into() }
        }
        Ok(_) => {
            let program = config.program().to_string_lossy().into_owned();
            ProcessError::Execute { name, program, source }
        }
    }
}

fn not_recorded(name: &str, source: LedgerError) -> ProcessError {
    ProcessError::Record { name: name.to_owned(), source }
}

fn supervise(name: &str, source: io::Error) -> ProcessError {
    ProcessError::Supervise { name: name.to_owned(), source }
}
