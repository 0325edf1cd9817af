//! One external command, supervised in a process group of its own.

use std::future::pending;
use std::io;
use std::process::ExitStatus;
use std::sync::Arc;

use crankcase_engine::{Exit, Outcome, Stop, Worker};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::timeout;
use tracing::Instrument;

pub use self::cgroup::Cgroups;
pub use self::config::ProcessConfig;
pub use self::error::{ProcessEnd, ProcessError};
pub use self::escaped::Escaped;
pub use self::group::ProcessGroup;
pub use self::health_check::{HealthCheck, HealthProbe};
pub use self::identity::ProcessId;
pub use self::job::{Finished, Job, JobError};
pub use self::job_output::Told;
pub use self::launch::launch;
pub use self::ledger::{Ledger, LedgerError};
pub use self::leftovers::{
    Fate, Leftover, Leftovers, end_leftovers, find_survivors, sort_leftovers,
};
pub use self::limits::Limit;
pub use self::readiness::Readiness;
pub use self::reload::Reload;
pub use self::reloader::ReloadError;
pub use self::status::{Containment, ProcessHandle, ProcessStatus};
pub use self::stop_signal::StopSignal;
pub use self::survivor::Survivor;

use crate::condition::Condition;

use self::adopted::{AdoptedGroup, TakenUp, clear};
use self::any_group::AnyGroup;
use self::health_watch::{HealthWatch, Unhealthy};
use self::notify::{Notified, NotifySocket};
use self::output::{Output, Writer};
use self::probe::Probe;
use self::readers::Readers;
use self::ready_file::ReadyFile;
use self::reloader::Reloader;
use self::spawn::{file_before, notify_socket, pid_file_before, port_taken, supervise, validate};

mod account;
mod adopted;
mod any_group;
mod cgroup;
mod config;
mod daemon;
mod end;
mod error;
mod escaped;
mod group;
mod groups;
mod health_check;
mod health_watch;
mod holder;
mod identity;
mod inherited;
mod job;
mod job_output;
mod launch;
mod ledger;
mod leftovers;
mod limits;
mod lines;
mod log_file;
mod look;
mod members;
mod notify;
mod output;
mod probe;
mod readers;
mod readiness;
mod ready;
mod ready_file;
mod reload;
mod reloader;
mod side_command;
mod spawn;
mod spool;
mod status;
mod stop_signal;
mod stream;
mod survivor;

/// A worker that supervises one external command in a process group of its own.
///
/// The command has a clean environment, its [`input`](ProcessConfig::input) as stdin, and its output is logged line by line as events
/// with the target `crankcase_workers::process::output` and the fields `process`, `stream`, `line`
/// and, for a line that was longer than [`max_line`](ProcessConfig::max_line), `cut`: the number of
/// bytes left out. A last line without an end is logged at the end of the stream. How many lines came
/// too fast to be logged is an event of its own, at least once a second while there are any.
///
/// It inherits no descriptor and no ignored standard signal: before it is spawned, all descriptors of
/// this program above 2 are marked close-on-exec, and signals that this program found ignored are
/// handled by doing nothing. SIGTTIN and SIGTTOU alone stay ignored.
///
/// It is spawned, then [`ready`](Self::ready), then run; who does not care when it is ready may run
/// it at once.
///
/// A program with a [pid file](ProcessConfig::pid_file) leaves a daemon, which takes the place of
/// the leader once it is found; the spawn waits for that.
///
/// # Guarantees
///
/// - However the worker ends, stopped, failed or dropped, no process in the group outlives it, and
///   the leader is reaped: also a worker that is dropped does not count as ended before. What the
///   kernel does not let go of is waited for 5 s and stays on record. Only a process that is
///   [left](Self::run_or_leave) to the next agent runs on.
/// - What has left the group ends with it if the process has a [cgroup](ProcessConfig::cgroups).
///   Without one, what has the mark of a process on record is killed when that ends, unless it was
///   dropped or [has daemonised](ProcessEnd::has_daemonised). Others are not touched; when they
///   hold the output open, it is read for 1 s more.
/// - Told to stop, it sends the stop signal to the group and waits for the leader; what is left of
///   the group when the leader has ended, or after the grace period, is killed. It then is done,
///   whatever the status.
/// - When so many checks in a row have failed as its [`health`](ProcessConfig::health) says, it is
///   ended in the same way, and counts as failed.
/// - Every other end of the leader is a failure with its status, also status 0, with the last line
///   of its stderr and with how many processes it left behind in its group. A program that
///   [has daemonised](ProcessEnd::has_daemonised) is told so.
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
    group: AnyGroup,
    handle: ProcessHandle,
    /// The file that was to make it ready, as it was before it was spawned.
    file_before: Option<ReadyFile>,
    health: HealthWatch,
    /// Those who read its output; they end with it.
    readers: Readers,
    /// Who reads its notify socket.
    _listener: JoinSet<()>,
}

impl Process {
    /// Spawns the command; it runs when this returns, and its output is logged from then on.
    ///
    /// With a ledger it is on record as long as it runs, so that
    /// [`end_leftovers`](crate::end_leftovers) finds it if the agent is killed.
    ///
    /// # Errors
    ///
    /// Returns an error if the configuration is invalid, the port that it is to be ready at is taken,
    /// the command cannot be recorded or executed, or it leaves no daemon as its
    /// [`pid_file`](ProcessConfig::pid_file) asks; no process is left.
    ///
    /// # Panics
    ///
    /// Panics outside of a tokio runtime with its I/O and time drivers enabled.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: when it is dropped, no process is left.
    pub async fn spawn(
        config: ProcessConfig,
        ledger: Option<&Ledger>,
    ) -> Result<Self, ProcessError> {
        // Boxed, so that those who spawn hold it once.
        Box::pin(Self::spawn_held(config, ledger, None)).await
    }

    /// Spawns the command for the worker that has this `stop`, as [`spawn`](Self::spawn) does.
    ///
    /// When what this returns is dropped before it runs, or this itself, the worker does not count as
    /// ended before the process is gone: an engine starts no other meanwhile. From when it
    /// [runs](Worker::run) on, that holds in any case.
    ///
    /// # Errors
    ///
    /// As [`spawn`](Self::spawn).
    ///
    /// # Panics
    ///
    /// As [`spawn`](Self::spawn).
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: when it is dropped, no process is left.
    pub async fn spawn_for(
        stop: &Stop,
        config: ProcessConfig,
        ledger: Option<&Ledger>,
    ) -> Result<Self, ProcessError> {
        Box::pin(Self::spawn_held(config, ledger, Some(stop))).await
    }

    async fn spawn_held(
        config: ProcessConfig,
        ledger: Option<&Ledger>,
        stop: Option<&Stop>,
    ) -> Result<Self, ProcessError> {
        validate(&config)?;
        if let Some(address) = config.readiness.address()
            && Probe::is_taken(address).await
        {
            return Err(port_taken(config.name, address).await);
        }
        let file_before = file_before(&config).await?;
        let pid_file = pid_file_before(&config, ledger).await?;
        let socket = notify_socket(&config).await?;
        let path = socket.as_ref().map(NotifySocket::path);
        let mut group = ProcessGroup::spawn_held(&config, ledger, path, stop).await?;
        tracing::debug!(process = config.name, pid = group.pid(), "process spawned");
        let output = Arc::new(Output::new(&config));
        let (told, notified) = watch::channel(Notified::default());
        let reloader = Reloader::new(&config, group.leader(), ledger);
        let (health, view) = HealthWatch::new(&config, group.pid(), ledger);
        let told_by = (Arc::clone(&output), notified);
        let handle = ProcessHandle::new(group.pid(), told_by, view, reloader);
        let handle = handle.contained_by(Containment::of(group.record()));
        let readers = match group.spool() {
            Some(spool) => Readers::of_files(Some(spool), &output).await,
            None => Readers::of_pipes(&mut group, &output),
        };
        let mut listener = JoinSet::new();
        if let Some(socket) = socket {
            listener.spawn(socket.listen(told).in_current_span());
        }
        let group = AnyGroup::Own(Box::new(group));
        let process =
            Self { config, group, handle, file_before, health, readers, _listener: listener };
        Box::pin(process.until_daemon(pid_file, ledger, stop)).await
    }

    /// Adopts a process that an earlier agent has left running, for the worker that has this
    /// `stop`. Its output is logged from where it was read last.
    ///
    /// The config says only how the process is logged, checked, reloaded and ended from now on. The
    /// caller makes sure, by the [`digest`](Survivor::digest), that the process was started with
    /// the same config. Its exit status stays unknown, because only the parent of a process gets
    /// it.
    ///
    /// It is ready if it was ready under the earlier agent. Otherwise
    /// [`ready_unless`](Self::ready_unless) waits as for a process that was spawned, but a file
    /// that is there makes it ready even if the file is older than the process. A process that
    /// becomes ready by a line or by a message to its notify socket counts as ready at once,
    /// because either may have come already.
    ///
    /// Returns nothing if it has ended meanwhile. Then the rest of its output is logged, the rest
    /// of its group is killed, and its record is removed.
    ///
    /// # Errors
    ///
    /// When the config is invalid, or the process cannot be looked for or watched. It stays on
    /// record.
    ///
    /// # Panics
    ///
    /// Panics outside of a tokio runtime with its I/O and time drivers enabled.
    ///
    /// # Cancel safety
    ///
    /// When it is dropped, the process is killed, or stays on record.
    pub async fn adopt_for(
        stop: &Stop,
        config: ProcessConfig,
        ledger: Option<&Ledger>,
        survivor: &Survivor,
    ) -> Result<Option<Self>, ProcessError> {
        validate(&config)?;
        let taken_up = AdoptedGroup::take_up(survivor).await;
        let output = Arc::new(Output::new(&config));
        match taken_up.map_err(|source| supervise(&config.name, source))? {
            TakenUp::Runs(mut group) => {
                group.hold(stop.linger());
                tracing::debug!(process = config.name, pid = group.pid(), "process adopted");
                let reloader = Reloader::new(&config, Some(group.leader()), ledger);
                let (health, view) = HealthWatch::new(&config, group.pid(), ledger);
                let (_nobody, notified) = watch::channel(Notified::default());
                let told_by = (Arc::clone(&output), notified);
                let handle = ProcessHandle::new(group.pid(), told_by, view, reloader);
                let handle = handle.adopted().contained_by(Containment::of(group.record()));
                if survivor.is_ready(&config.readiness) {
                    handle.set_ready();
                }
                let readers = Readers::of_files(group.spool(), &output).await;
                let group = AnyGroup::Adopted(Box::new(group));
                let (file_before, _listener) = (None, JoinSet::new());
                Ok(Some(Self { config, group, handle, file_before, health, readers, _listener }))
            }
            TakenUp::IsGone(record) => {
                let readers = Readers::of_files(record.spool(), &output).await;
                readers.finish(Writer::HasEnded).await;
                let cleared = clear(record).await;
                cleared.map_err(|source| supervise(&config.name, source))?;
                Ok(None)
            }
        }
    }

    /// Waits until the process is ready, as its [`Readiness`] asks.
    ///
    /// # Errors
    ///
    /// When it is not ready in time, or ends before; no process is left.
    ///
    /// # Cancel safety
    ///
    /// When it is dropped, no process is left.
    pub async fn ready(self) -> Result<Self, ProcessError> {
        // Nobody sends this stop.
        let (_stopper, stop) = Stop::pair();
        self.ready_unless(&stop).await
    }

    /// Waits until the process is ready, as [`ready`](Self::ready) does, or until `stop` is told.
    ///
    /// In the second case the process is returned although it is not ready. The caller can then end
    /// it in good order by [`run`](Worker::run) with the same stop.
    ///
    /// # Errors
    ///
    /// As [`ready`](Self::ready).
    ///
    /// # Cancel safety
    ///
    /// When it is dropped, no process is left.
    pub async fn ready_unless(self, stop: &Stop) -> Result<Self, ProcessError> {
        if self.handle.status().is_ready {
            return Ok(self);
        }
        let waited = if self.config.readiness == Readiness::Spawned {
            // It was ready once it was spawned, even if it has ended since.
            Ok(Ok(()))
        } else {
            let reached = self.config.readiness.reached(&self.handle, self.file_before);
            tokio::select! {
                biased;
                ended = self.group.leader_ended() => Err(ended),
                () = stop.wait() => return Ok(self),
                waited = timeout(self.config.ready_timeout, reached) => Ok(waited),
            }
        };
        if let Ok(Ok(())) = waited {
            self.handle.set_ready();
            tracing::debug!(process = self.config.name, "process ready");
            if self.config.readiness != Readiness::Spawned {
                self.group.note_ready().await;
            }
            return Ok(self);
        }
        let (within, said) = (self.config.ready_timeout, self.handle.status().waits_for);
        match waited {
            Ok(_) => {
                let (name, ended) = Box::pin(self.killed_end()).await;
                let last_words = ended.ok().and_then(|(_, end)| end.last_words);
                Err(ProcessError::NotReady { name, within, said, last_words })
            }
            Err(watched) => {
                let (name, ended) = Box::pin(self.own_end()).await;
                let ended = watched.and(ended);
                let (status, end) = ended.map_err(|source| supervise(&name, source))?;
                let end = ProcessEnd { is_early: true, ..end };
                Err(ended_by_itself(name, status, end))
            }
        }
    }

    /// Says whom it tells how well the process does: it is degraded while lines of its output are
    /// dropped.
    pub fn telling(self, condition: Condition) -> Self {
        self.handle.output().tell(condition);
        self
    }

    /// Returns whether another agent may adopt it: its config [asks for
    /// that](ProcessConfig::survives), and it is on record.
    pub fn survives(&self) -> bool {
        self.group.survives()
    }

    /// Runs the worker as [`run`](Worker::run) does until `leave` completes. Then it leaves a
    /// process that [survives](Self::survives) running, on record for the next agent, and returns.
    /// For any other process `leave` has no meaning.
    ///
    /// # Errors
    ///
    /// As the worker.
    ///
    /// # Cancel safety
    ///
    /// When it is dropped, the process is killed.
    pub async fn run_or_leave(
        mut self,
        stop: Stop,
        leave: impl Future<Output = ()> + Send,
    ) -> Outcome {
        self.group.hold(stop.linger());
        let supervised = self.supervise(&stop, leave).await;
        if matches!(supervised, Ok(Cause::Left)) {
            self.leave().await;
            return Ok(());
        }
        // Boxed, so that a process that runs does not hold the memory of its end.
        let (name, ended) = match supervised {
            Ok(Cause::Own) => Box::pin(self.own_end()).await,
            _ => Box::pin(self.killed_end()).await,
        };
        let cause = supervised.map_err(|source| supervise(&name, source))?;
        let (status, end) = ended.map_err(|source| supervise(&name, source))?;
        tracing::debug!(process = name, ?status, ?cause, "process ended");
        match cause {
            Cause::Left | Cause::Stop => Ok(()),
            Cause::Own => Err(Exit::failed(ended_by_itself(name, status, end))),
            Cause::Unhealthy(Unhealthy { failures, said }) => {
                let last_words = end.last_words;
                let error = ProcessError::Unhealthy { name, failures, said, last_words };
                Err(Exit::failed(error))
            }
        }
    }

    /// Notes how far its output was read, and leaves it running.
    async fn leave(self) {
        let Self { config, group, readers, .. } = self;
        if !readers.finish(Writer::IsLeft).await {
            tracing::warn!(process = config.name, "some output may be logged twice");
        }
        group.leave();
        tracing::debug!(process = config.name, "process left running");
    }

    /// Returns what another worker needs to adopt it once it is left running. None if it does not
    /// [survive](Self::survives).
    pub fn survivor(&self) -> Option<Survivor> {
        let record = self.group.record()?;
        let entry = match self.handle.status().is_ready {
            true => record.ready(),
            false => record.entry().cloned(),
        };
        entry.as_ref().and_then(Survivor::of)
    }

    /// Returns the pid of the leader, which is the group's id, or of the daemon.
    pub fn pid(&self) -> i32 {
        self.handle.pid()
    }

    /// Returns a view of the process.
    pub fn handle(&self) -> ProcessHandle {
        self.handle.clone()
    }

    /// Waits until the process is to be left, its leader ends by itself, or it has to end because
    /// of a stop or of failed checks. Then asks the group to end, and waits for the leader for the
    /// grace period.
    async fn supervise(
        &self,
        stop: &Stop,
        leave: impl Future<Output = ()> + Send,
    ) -> io::Result<Cause> {
        let cause = tokio::select! {
            biased;
            () = leave, if self.survives() => return Ok(Cause::Left),
            () = stop.wait() => Cause::Stop,
            ended = self.group.leader_ended() => return ended.map(|()| Cause::Own),
            unhealthy = self.health.unhealthy() => Cause::Unhealthy(unhealthy),
        };
        let (signal, grace) = (self.config.stop_signal, self.config.grace);
        if !self.group.ask_to_end(signal, grace).await? {
            tracing::warn!(
                process = self.config.name,
                ?grace,
                "process killed after its grace period"
            );
        }
        Ok(cause)
    }
}

impl Worker for Process {
    async fn run(self, stop: Stop) -> Outcome {
        self.run_or_leave(stop, pending()).await
    }
}

/// The reason why the supervision of a process has ended.
#[derive(Debug)]
enum Cause {
    /// It runs on, for another agent.
    Left,
    /// It has ended by itself.
    Own,
    /// Its worker was told to stop.
    Stop,
    /// Its checks have failed.
    Unhealthy(Unhealthy),
}

/// Returns the error of a process that has ended by itself. Only an adopted process has no status.
fn ended_by_itself(name: String, status: Option<ExitStatus>, end: ProcessEnd) -> ProcessError {
    match status {
        Some(status) => ProcessError::Exited { name, status, end },
        None => ProcessError::Gone { name, end },
    }
}
