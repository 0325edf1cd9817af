//! What a process is spawned with, and why that fails.

use std::ffi::OsString;
use std::io;
use std::process::Stdio;

use tokio::process::Command;

use super::config::ProcessConfig;
use super::error::ProcessError;
use super::group::Group;
use super::ledger::{Ledger, LedgerError, MARK, Record};
use super::ready::{NOTIFY_SOCKET, NotifySocket, Readiness};

/// The variables that every process has, and their values where the agent has none itself.
const ENVIRONMENT: [(&str, &str); 3] =
    [("PATH", "/usr/local/bin:/usr/bin:/bin"), ("HOME", "/"), ("LANG", "C.UTF-8")];

/// Makes the socket to which the process says that it is ready, if that is how it is.
pub(super) async fn notify_socket(
    config: &ProcessConfig,
) -> Result<Option<NotifySocket>, ProcessError> {
    let Readiness::Notify { folder } = &config.readiness else { return Ok(None) };
    let (name, owned) = (config.name.clone(), folder.clone());
    let failed = |source| ProcessError::Notify { name, folder: folder.clone(), source };
    let bound = blocking(&config.name, move || NotifySocket::bind(&owned)).await?;
    bound.map(Some).map_err(failed)
}

/// Returns the command with its environment.
pub(super) fn command(
    config: &ProcessConfig,
    record: Option<&Record>,
    socket: Option<&NotifySocket>,
) -> Command {
    let own = |name: &OsString| std::env::var_os(name).map(|value| (name.clone(), value));
    let mut command = Command::new(config.program());
    command
        .args(config.command.iter().skip(1))
        .env_clear()
        .envs(ENVIRONMENT.map(|(name, default)| {
            (name, std::env::var_os(name).unwrap_or_else(|| default.into()))
        }))
        .envs(config.inherit.iter().filter_map(own))
        .envs(&config.environment)
        .current_dir(&config.folder)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0);
    if let Some(record) = record {
        command.env(MARK, record.token());
    }
    if let Some(socket) = socket {
        command.env(NOTIFY_SOCKET, socket.path());
    }
    command
}

/// Begins the record of a process.
pub(super) async fn begin(name: &str, ledger: Ledger) -> Result<Record, ProcessError> {
    let owned = name.to_owned();
    let begun = blocking(name, move || ledger.begin(&owned)).await?;
    begun.map_err(|source| not_recorded(name, source))
}

/// Begins to watch a process that was just spawned, and puts it on record.
pub(super) async fn take_up(name: &str, group: &mut Group) -> Result<(), ProcessError> {
    group.watch().map_err(|source| supervise(name, source))?;
    let Some(record) = group.take_record() else { return Ok(()) };
    let id = group.id();
    let (record, result) = blocking(name, move || record.spawned(id)).await?;
    group.set_record(record);
    result.map_err(|source| not_recorded(name, source))
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
pub(super) fn cannot_execute(config: &ProcessConfig, source: io::Error) -> ProcessError {
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

pub(super) fn supervise(name: &str, source: io::Error) -> ProcessError {
    ProcessError::Supervise { name: name.to_owned(), source }
}
