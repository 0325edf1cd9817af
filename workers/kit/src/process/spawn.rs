//! What a process is spawned with, and why that fails.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Seek, Write};
use std::net::SocketAddr;
use std::path::Path;
use std::process::Stdio;

use crankcase_engine::{ConfigError, Stop};
use rustix::fs::{MemfdFlags, memfd_create};
use tokio::process::Command;

use super::account::Account;
use super::cgroup::Cgroups;
use super::config::ProcessConfig;
use super::error::ProcessError;
use super::group::ProcessGroup;
use super::holder::Holder;
use super::inherited::keep_from_children;
use super::launch::{LAUNCHER, Launch, is_ready};
use super::ledger::wire::Adoption;
use super::ledger::{Ledger, LedgerError, MARK, Record};
use super::look::environment;
use super::notify::NotifySocket;
use super::readiness::{NOTIFY_SOCKET, Readiness};
use super::ready_file::ReadyFile;

impl ProcessGroup {
    /// Spawns a command as the leader of a group of its own, and puts it on record if there is a
    /// ledger.
    ///
    /// How a worker's readiness is known and how its output is logged has no meaning here.
    ///
    /// # Errors
    ///
    /// When the config is invalid, the folder or the program is not there, or the command cannot be
    /// put on record; no process is left.
    ///
    /// # Panics
    ///
    /// Panics outside of a tokio runtime with its I/O and time drivers enabled.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: when it is dropped, no process is left.
    pub async fn spawn(
        config: &ProcessConfig,
        ledger: Option<&Ledger>,
    ) -> Result<Self, ProcessError> {
        validate(config)?;
        Self::spawn_held(config, ledger, None, None).await
    }

    /// Spawns a valid command, with its notify socket, for the worker that has this `stop`.
    pub(super) async fn spawn_held(
        config: &ProcessConfig,
        ledger: Option<&Ledger>,
        socket: Option<&Path>,
        stop: Option<&Stop>,
    ) -> Result<Self, ProcessError> {
        let mut launched = launched(config).await?;
        if launched.is_none() && ledger.is_some() && cgroups(config).is_some() {
            // Where this program itself executes the command, it is told what is in the way. The
            // launcher can only write that to its stderr.
            let owned = config.clone();
            blocking(&config.name, move || owned.look()).await??;
        }
        let begun = match ledger {
            Some(ledger) => Some(begin(config, ledger.clone()).await?),
            None => None,
        };
        let (record, files) = begun.unzip();
        let stdin = input(&config.input).map_err(|source| supervise(&config.name, source))?;
        if let Some(cgroup) = record.as_ref().and_then(Record::cgroup) {
            launched.get_or_insert_default().launch.cgroup = Some(cgroup.clone());
        }
        let command = command(config, launched.as_ref());
        let mut command = command.map_err(|source| supervise(&config.name, source))?;
        command.stdin(stdin);
        command
            .envs(record.as_ref().map(|record| (MARK, record.token())))
            .envs(socket.map(|socket| (NOTIFY_SOCKET, socket)));
        if let Some((stdout, stderr)) = files.flatten() {
            command.stdout(stdout).stderr(stderr);
        }
        keep_from_children().map_err(|source| supervise(&config.name, source))?;
        let child = match command.spawn() {
            Ok(child) => child,
            Err(source) => {
                let owned = config.clone();
                let why = blocking(&config.name, move || cannot_execute(&owned, source)).await;
                return Err(why?);
            }
        };
        let mut group = Self::new(child, record).map_err(|err| supervise(&config.name, err))?;
        stop.into_iter().for_each(|stop| group.hold(stop.linger()));
        if let Err(error) = take_up(&config.name, &mut group).await {
            // Why it cannot run says more than how it ended.
            let _ended = group.reap().await;
            return Err(error);
        }
        Ok(group)
    }
}

pub(super) fn validate(config: &ProcessConfig) -> Result<(), ProcessError> {
    let name = || config.name.clone();
    config.validate().map_err(|source| ProcessError::Config { name: name(), source })
}

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

/// Returns the error of a process whose address is taken. It names the process that holds the
/// address, if this agent may see that.
pub(super) async fn port_taken(name: String, address: SocketAddr) -> ProcessError {
    let holder = blocking(&name, move || Holder::of(address)).await;
    match holder.ok().flatten() {
        Some(Holder { pid, program }) => ProcessError::PortHeld { name, address, pid, program },
        None => ProcessError::PortTaken { name, address },
    }
}

/// Looks at the file that is to make the process ready, if its readiness is a file.
pub(super) async fn file_before(config: &ProcessConfig) -> Result<Option<ReadyFile>, ProcessError> {
    let Readiness::File(path) = &config.readiness else { return Ok(None) };
    let owned = path.clone();
    let looked = blocking(&config.name, move || ReadyFile::look(&owned)).await?;
    // A file that cannot be looked at does not make the process ready either; the wait reports the
    // error.
    Ok(looked.unwrap_or_default())
}

/// Looks at the pid file that the program is to write, if it leaves a daemon.
pub(super) async fn pid_file_before(
    config: &ProcessConfig,
    ledger: Option<&Ledger>,
) -> Result<Option<ReadyFile>, ProcessError> {
    let Some(path) = config.pid_file.clone() else { return Ok(None) };
    if ledger.is_none() {
        let source = ConfigError::new("pid_file", path.display(), "none without a ledger");
        return Err(ProcessError::Config { name: config.name.clone(), source });
    }
    let looked = blocking(&config.name, move || ReadyFile::look(&path)).await?;
    // The wait for the daemon reports a file that cannot be looked at.
    Ok(looked.unwrap_or_default())
}

/// What is done before a command is executed, and its HOME if it has another user.
#[derive(Default)]
struct Launched {
    launch: Launch,
    home: Option<OsString>,
}

/// Returns where the process gets a cgroup, if this program can launch it into one.
fn cgroups(config: &ProcessConfig) -> Option<&Cgroups> {
    config.cgroups.as_ref().filter(|_| is_ready())
}

/// Looks up what a command needs that is launched by way of this program.
async fn launched(config: &ProcessConfig) -> Result<Option<Launched>, ProcessError> {
    if !config.needs_launcher() {
        return Ok(None);
    }
    if !is_ready() {
        return Err(ProcessError::NoLauncher { name: config.name.clone() });
    }
    let owned = config.clone();
    let account = blocking(&config.name, move || Account::of(&owned)).await??;
    let Account { user, group, groups, home } = account;
    let limits = config.limits.iter().map(|(limit, bound)| (limit.name().to_owned(), *bound));
    let (umask, limits) = (config.umask, limits.collect());
    let launch = Launch { cgroup: None, user, group, groups, umask, limits };
    Ok(Some(Launched { launch, home }))
}

/// Returns the command with its environment.
fn command(config: &ProcessConfig, launched: Option<&Launched>) -> io::Result<Command> {
    let own = |name: &OsString| std::env::var_os(name).map(|value| (name.clone(), value));
    let mut command = match launched {
        None => Command::new(config.program()),
        Some(Launched { launch, .. }) => {
            // Also where the file of this program was replaced.
            let mut command = Command::new("/proc/self/exe");
            command.arg0(LAUNCHER).arg(launch.to_word()?).arg(config.program());
            command
        }
    };
    command
        .args(config.command.iter().skip(1))
        .env_clear()
        .envs(environment())
        .envs(launched.and_then(|launched| launched.home.as_ref()).map(|home| ("HOME", home)))
        .envs(config.inherit.iter().filter_map(own))
        .envs(&config.environment)
        .current_dir(&config.folder)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0);
    Ok(command)
}

/// Returns a stdin that holds these bytes and then ends. Nobody has to write them while the process runs.
fn input(bytes: &[u8]) -> io::Result<Stdio> {
    if bytes.is_empty() {
        return Ok(Stdio::null());
    }
    let mut file = File::from(memfd_create("stdin", MemfdFlags::CLOEXEC)?);
    file.write_all(bytes)?;
    file.rewind()?;
    Ok(file.into())
}

/// Begins the record of a process; returns it, and the files for stdout and stderr if there are
/// any.
pub(super) async fn begin(
    config: &ProcessConfig,
    ledger: Ledger,
) -> Result<(Record, Option<(File, File)>), ProcessError> {
    let (name, adoption) = (config.name.clone(), config.may_survive().then(|| adoption(config)));
    let pid_file = config.pid_file.clone();
    let cgroups = cgroups(config).cloned();
    let begin = move || {
        let record = ledger.begin(&name, adoption, pid_file.as_deref(), cgroups.as_ref())?;
        let files = record.create_files()?;
        Ok::<_, LedgerError>((record, files))
    };
    let begun = blocking(&config.name, begin).await?;
    begun.map_err(|source| not_recorded(&config.name, source))
}

/// Returns what another agent needs to adopt the process.
fn adoption(config: &ProcessConfig) -> Adoption {
    Adoption {
        digest: config.digest.clone(),
        stop_signal: config.stop_signal.name().to_owned(),
        grace_ms: u64::try_from(config.grace.as_millis()).unwrap_or(u64::MAX),
        is_ready: false,
    }
}

/// Begins to watch a process that was just spawned, and puts it on record.
async fn take_up(name: &str, group: &mut ProcessGroup) -> Result<(), ProcessError> {
    group.watch().map_err(|source| supervise(name, source))?;
    let Some(record) = group.take_record() else { return Ok(()) };
    let id = group.id();
    let (record, result) = blocking(name, move || record.spawned(id)).await?;
    group.set_record(record);
    result.map_err(|source| not_recorded(name, source))
}

/// Runs `work`, which waits for the disk, where it holds up no other task.
pub(super) async fn blocking<T: Send + 'static>(
    name: &str,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, ProcessError> {
    let done = tokio::task::spawn_blocking(work).await;
    done.map_err(|err| supervise(name, io::Error::other(err)))
}

/// Says what is in the way of a command that could not be executed; else what the system said. Blocks for the
/// disk.
fn cannot_execute(config: &ProcessConfig, source: io::Error) -> ProcessError {
    let (name, program) = (config.name.clone(), config.program().to_string_lossy().into_owned());
    let executing = || ProcessError::Execute { name, program, source };
    config.look().err().unwrap_or_else(executing)
}

pub(super) fn not_recorded(name: &str, source: LedgerError) -> ProcessError {
    ProcessError::Record { name: name.to_owned(), source }
}

pub(super) fn supervise(name: &str, source: io::Error) -> ProcessError {
    ProcessError::Supervise { name: name.to_owned(), source }
}
