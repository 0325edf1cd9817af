use std::io;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use crankcase_engine::Stop;
use crankcase_resources::BoxError;
use rustix::process::Signal;
use serde_json::{Value, json};
use tokio::net::unix::pipe::pipe;
use tokio::process::Command;
use tokio::time::timeout;

use crate::blocking::blocking;
use crate::command::environment;
use crate::exec::config::ExecConfig;
use crate::exec::group::Group;
use crate::exec::output::Output;

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
    pub(super) fn state(&self) -> Value {
        json!({
            "ran": true,
            "exit_code": self.code,
            "stdout": self.stdout,
            "stderr": self.stderr,
        })
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
    #[error("it took longer than {} and was ended", humantime::format_duration(*limit))]
    TimedOut { limit: Duration, output: String },
    #[error("it was ended because apply was told to stop")]
    Stopped { output: String },
}

/// Runs a command in a process group of its own, to its end.
///
/// After the timeout, or when `stop` is told, the group gets TERM and, if that does not end it
/// within the grace, KILL. Processes that a finished command leaves behind run on; what they write
/// later is lost. Dropping the future kills the group.
pub(super) async fn run(
    argv: &[String],
    config: &ExecConfig,
    stop: &Stop,
) -> Result<Finished, RunError> {
    let program = &argv[0];
    let start = |source| RunError::Start { program: program.clone(), source };
    let cwd = config.place.cwd.clone().unwrap_or_else(|| Path::new("/").to_owned());
    require_folder(cwd.clone()).await?;
    let mut running = Running::start(argv, config, &cwd).map_err(|err| start(Box::new(err)))?;
    let follow = |source| RunError::Follow { program: program.clone(), source };
    let error = tokio::select! {
        biased;
        status = running.end() => {
            let status = status.map_err(follow)?;
            return Ok(running.finished(status));
        }
        () = stop.wait() => None,
        () = tokio::time::sleep(config.timeout) => Some(config.timeout),
    };
    running.group.signal(Signal::TERM);
    // Whether the leader has ended or not, it is not reaped, so that the group can be killed: it may
    // have left children that do not end.
    timeout(config.grace, running.follow()).await.ok();
    running.group.signal(Signal::KILL);
    // A process that even KILL does not end at once is stuck in the kernel.
    timeout(config.grace, running.end()).await.ok();
    let mut output = running.stdout.text();
    if !output.is_empty() && !output.ends_with('\n') {
        output.push('\n');
    }
    output.push_str(&running.stderr.text());
    Err(match error {
        Some(limit) => RunError::TimedOut { limit, output },
        None => RunError::Stopped { output },
    })
}

async fn require_folder(cwd: PathBuf) -> Result<(), RunError> {
    let error = RunError::MissingFolder { cwd: cwd.clone() };
    let is_folder = blocking(move || Ok::<_, BoxError>(cwd.is_dir())).await;
    if is_folder.unwrap_or(false) { Ok(()) } else { Err(error) }
}

/// A command that runs, and what it has written.
struct Running {
    group: Group,
    stdout: Output,
    stderr: Output,
}

impl Running {
    fn start(argv: &[String], config: &ExecConfig, cwd: &Path) -> io::Result<Self> {
        let (stdout_writer, stdout) = pipe()?;
        let (stderr_writer, stderr) = pipe()?;
        let child = Command::new(&argv[0])
            .args(&argv[1..])
            .env_clear()
            .envs(environment(&config.place.env))
            .current_dir(cwd)
            .stdin(Stdio::null())
            .stdout(stdout_writer.into_blocking_fd()?)
            .stderr(stderr_writer.into_blocking_fd()?)
            .process_group(0)
            .kill_on_drop(true)
            .spawn()?;
        let group = Group::new(child)?;
        Ok(Self { group, stdout: Output::new(stdout), stderr: Output::new(stderr) })
    }

    /// Reads until the leader has ended; it stays unreaped. Cancel safe.
    async fn follow(&mut self) -> io::Result<()> {
        loop {
            tokio::select! {
                biased;
                ended = self.group.leader_ended() => {
                    self.stdout.drain()?;
                    self.stderr.drain()?;
                    return ended;
                }
                filled = self.stdout.fill(), if self.stdout.is_open() => filled?,
                filled = self.stderr.fill(), if self.stderr.is_open() => filled?,
            }
        }
    }

    /// Reads until the command ends, and reaps it. Cancel safe.
    async fn end(&mut self) -> io::Result<ExitStatus> {
        self.follow().await?;
        self.group.reap().await
    }

    fn finished(&self, status: ExitStatus) -> Finished {
        Finished {
            code: status.code(),
            signal: status.signal(),
            stdout: self.stdout.text(),
            stderr: self.stderr.text(),
        }
    }
}
