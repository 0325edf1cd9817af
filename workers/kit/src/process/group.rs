//! A process group that does not outlive its owner, nor does what is in its cgroup if it has one.
//!
//! Invariants:
//! 1. The leader is reaped only after the group was killed or released. Until then the leader's pid,
//!    which is the group's id, is not recycled, so no signal can reach a stranger.
//! 2. The record is removed only after the group was killed or released, and stays if a killed one is
//!    not gone then.
//! 3. Who holds the worker lets go of it only when all processes of the group are gone, or after
//!    [`GONE`].

use std::io;
use std::os::fd::OwnedFd;
use std::process::ExitStatus;
use std::sync::Arc;
use std::time::Duration;

use crankcase_engine::owner::Linger;
use rustix::io::Errno;
use rustix::process::{
    Pid, PidfdFlags, Signal, WaitId, WaitIdOptions, kill_process_group, pidfd_open,
    pidfd_send_signal, test_kill_process_group, waitid,
};
use tokio::io::Interest;
use tokio::process::{Child, ChildStderr, ChildStdout};
use tokio::runtime::Handle;
use tokio::time::{Instant, timeout, timeout_at};

use crate::readiness::{ReadyFd, register};

use super::cgroup::{Cgroup, end_all};
use super::ledger::Record;
use super::members::{emptied, others};
use super::spool::Spool;
use super::stop_signal::StopSignal;

/// How long killed processes are waited for: those that the kernel does not let go of, because a
/// disk does not answer for one, must not hold up others for ever.
pub(super) const GONE: Duration = Duration::from_secs(5);

/// How soon after its start a program has ended that daemonises.
const SOON: Duration = Duration::from_secs(60);

/// An external command, the leader of a process group of its own.
///
/// [`Process`](crate::Process) is the worker that supervises one. Take the group itself for a command
/// that is run to its end, and read its output: a command that nobody reads waits when the pipe is
/// full.
///
/// # Guarantees
///
/// - Dropping it kills every process in the group, and in its
///   [cgroup](crate::ProcessConfig::cgroups) if it has one, and reaps the leader. With a ledger,
///   what is not gone after 5 s stays on record.
/// - The leader is reaped only after the group was killed or released, so that no signal can reach a
///   stranger.
/// - A command that is on record is ended by the next agent if this one is killed; see
///   [`end_leftovers`](crate::end_leftovers).
///
/// # Examples
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use crankcase_workers::{ProcessConfig, ProcessGroup};
///
/// let config = ProcessConfig::new("quick", vec!["true".into()]);
/// let group = ProcessGroup::spawn(&config, None).await?;
/// group.leader_ended().await?;
/// assert!(group.release().await?.success());
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
#[must_use = "dropping it kills the group"]
pub struct ProcessGroup {
    id: Pid,
    spawned: Instant,
    /// Not there any more once it was dropped.
    child: Option<Child>,
    /// Not there before it is watched.
    leader: Option<ReadyFd>,
    record: Option<Record>,
    /// Keep the worker from counting as ended.
    holds: Vec<Linger>,
}

impl ProcessGroup {
    /// Takes a child that was just spawned as the leader of a group of its own.
    ///
    /// # Errors
    ///
    /// Returns an error if the child was reaped before.
    pub(super) fn new(child: Child, record: Option<Record>) -> io::Result<Self> {
        let id = child.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw);
        let id = id.ok_or_else(|| io::Error::other("the child has no process id"))?;
        let spawned = Instant::now();
        Ok(Self { id, spawned, child: Some(child), leader: None, record, holds: Vec::new() })
    }

    /// Begins to watch the leader.
    pub(super) fn watch(&mut self) -> io::Result<()> {
        let leader = pidfd_open(self.id, PidfdFlags::NONBLOCK)?;
        self.leader = Some(register(Arc::new(leader), Interest::READABLE)?);
        Ok(())
    }

    pub(super) fn id(&self) -> Pid {
        self.id
    }

    /// Returns the pid of the leader, which is the group's id.
    pub fn pid(&self) -> i32 {
        self.id.as_raw_pid()
    }

    /// Returns the descriptor by which the leader is signalled, once the leader is watched.
    pub(super) fn leader(&self) -> Option<Arc<OwnedFd>> {
        self.leader.as_ref().map(|leader| Arc::clone(leader.get_ref()))
    }

    /// Keeps a worker from counting as ended until the group is gone.
    pub(super) fn hold(&mut self, linger: Linger) {
        self.holds.push(linger);
    }

    /// Takes the record to change it; give it back with [`ProcessGroup::set_record`].
    pub(super) fn take_record(&mut self) -> Option<Record> {
        self.record.take()
    }

    pub(super) fn set_record(&mut self, record: Record) {
        self.record = Some(record);
    }

    pub(super) fn record(&self) -> Option<&Record> {
        self.record.as_ref()
    }

    fn cgroup(&self) -> Option<&Cgroup> {
        self.record.as_ref()?.cgroup()
    }

    /// Returns the files that the command writes to, if another agent may adopt it.
    pub(super) fn spool(&self) -> Option<Spool> {
        self.record.as_ref()?.spool()
    }

    /// Leaves the group running, and on record for the next agent.
    pub(super) fn leave(mut self) {
        if let Some(record) = self.record.take() {
            record.keep();
        }
        // The runtime reaps the leader if that ends before this process.
        drop(self.child.take());
    }

    /// Returns the read ends of stdout and stderr; none when they were taken before, or when
    /// another agent may adopt the command, which then writes to files.
    pub fn take_output(&mut self) -> (Option<ChildStdout>, Option<ChildStderr>) {
        self.child.as_mut().map_or((None, None), |child| (child.stdout.take(), child.stderr.take()))
    }

    /// Waits until the leader has ended; it stays unreaped, and the group can still be signalled.
    ///
    /// # Errors
    ///
    /// Returns an error if the leader cannot be watched.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe.
    pub async fn leader_ended(&self) -> io::Result<()> {
        let leader = self.leader.as_ref().ok_or_else(no_leader)?;
        leader.readable().await.map(drop)
    }

    /// Returns whether the leader has ended with 0. It stays unreaped.
    pub(super) fn has_ended_well(&self) -> bool {
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        let ended = waitid(WaitId::Pid(self.id), options).ok().flatten();
        ended.and_then(|ended| ended.exit_status()) == Some(0)
    }

    /// Returns whether the leader has ended as that of a program does that daemonises: with 0, and
    /// soon after its start.
    pub(super) fn may_have_daemonised(&self) -> bool {
        self.spawned.elapsed() <= SOON && self.has_ended_well()
    }

    /// Asks every process in the group to end, also a stopped one, and waits for the leader; returns
    /// whether it has ended within `grace`.
    ///
    /// # Errors
    ///
    /// Returns an error if the group cannot be signalled or its leader not be watched.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: the group was asked.
    pub async fn ask_to_end(&self, signal: StopSignal, grace: Duration) -> io::Result<bool> {
        for signal in [signal.number(), Signal::CONT] {
            match kill_process_group(self.id, signal) {
                Ok(()) => {}
                // The leader has moved to another group and nobody is left in this one.
                Err(Errno::SRCH) => self.signal_leader(signal)?,
                Err(err) => return Err(err.into()),
            }
        }
        match timeout(grace, self.leader_ended()).await {
            Ok(ended) => ended.map(|()| true),
            Err(_) => Ok(false),
        }
    }

    /// Waits until the leader has ended, and reaps it. The others of the group run on, and are on
    /// record no more.
    ///
    /// # Errors
    ///
    /// Returns an error if the leader cannot be watched or reaped.
    ///
    /// # Cancel safety
    ///
    /// When it is dropped, the group is killed.
    pub async fn release(mut self) -> io::Result<ExitStatus> {
        self.leader_ended().await?;
        // Before the id may be another's.
        self.record = None;
        self.child.as_mut().ok_or_else(no_leader)?.wait().await
    }

    /// Waits until the leader has ended, kills the others of the group, reaps the leader, and waits until
    /// the others are gone.
    ///
    /// # Errors
    ///
    /// Returns an error if the leader cannot be watched or reaped, or the others not be killed.
    ///
    /// # Cancel safety
    ///
    /// When it is dropped, the group is killed.
    pub(super) async fn finish(mut self) -> io::Result<ExitStatus> {
        self.leader_ended().await?;
        self.kill()?;
        let status = self.child.as_mut().ok_or_else(no_leader)?.wait().await?;
        // Most leave nobody behind. To look for others in /proc before the leader is reaped, as `reap` does,
        // makes a short command take three times as long. As long as anybody is in it, the id stays the
        // group's; only a signal that does nothing is sent to it.
        let is_left = test_kill_process_group(self.id).is_ok();
        let deadline = Instant::now() + GONE;
        let is_late = is_left && timeout_at(deadline, emptied(self.id)).await.is_err();
        if is_late || !matches!(timeout_at(deadline, end_all(self.cgroup())).await, Ok(Ok(()))) {
            not_gone(self.id, self.record.take());
        }
        self.record = None;
        Ok(status)
    }

    /// Kills the group and what is in its cgroup, waits until the others are gone, and reaps the
    /// leader; returns how the leader has ended, and how many others there were.
    ///
    /// # Errors
    ///
    /// Returns an error, and gives the leader up, if it is not gone after 5 s.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: dropping the group does the same.
    pub async fn reap(&mut self) -> io::Result<(ExitStatus, usize)> {
        let count = others(self.id).await.len();
        let count = self.cgroup().map_or(count, |cgroup| count.max(cgroup.others(self.pid())));
        self.kill()?;
        let deadline = Instant::now() + GONE;
        let emptied = timeout_at(deadline, emptied(self.id)).await;
        let ended = timeout_at(deadline, end_all(self.cgroup())).await;
        let child = self.child.as_mut().ok_or_else(no_leader)?;
        // Last, so that the id is the group's to the end.
        let status = match timeout_at(deadline, child.wait()).await {
            Ok(status) => Some(status?),
            // Who was waited for in vain are the others.
            Err(_) => child.try_wait()?,
        };
        if emptied.is_err() || !matches!(ended, Ok(Ok(()))) || status.is_none() {
            not_gone(self.id, self.record.take());
        }
        self.record = None;
        // Nobody waits for it any more; the runtime reaps it when it ends.
        self.child.take_if(|_| status.is_none());
        let status = status.ok_or_else(|| {
            io::Error::new(io::ErrorKind::TimedOut, format!("killed, and not gone after {GONE:?}"))
        });
        Ok((status?, count))
    }

    fn kill(&self) -> io::Result<()> {
        match kill_process_group(self.id, Signal::KILL) {
            Ok(()) | Err(Errno::SRCH) => self.signal_leader(Signal::KILL)?,
            Err(err) => return Err(err.into()),
        }
        self.cgroup().map_or(Ok(false), Cgroup::kill).map(drop)
    }

    fn signal_leader(&self, signal: Signal) -> rustix::io::Result<()> {
        let Some(leader) = &self.leader else { return Ok(()) };
        match pidfd_send_signal(leader.get_ref(), signal) {
            Err(Errno::SRCH) => Ok(()),
            result => result,
        }
    }
}

impl Drop for ProcessGroup {
    fn drop(&mut self) {
        // Invariant 1: a child that was reaped has no id, and the group's id may be another's.
        let Some(child) = self.child.take().filter(|child| child.id().is_some()) else { return };
        let killed = self.kill();
        let record = self.record.take();
        if let Err(err) = killed {
            let error: &dyn std::error::Error = &err;
            tracing::warn!(group = self.id.as_raw_pid(), error, "cannot kill process group");
            if let Some(record) = record {
                record.keep();
            }
            return;
        }
        let killed = Killed { id: self.id, child, record, _holds: std::mem::take(&mut self.holds) };
        // Not awaited by anyone, but by the worker's own end; without a runtime the child is reaped
        // when there is one again.
        if let Ok(runtime) = Handle::try_current() {
            drop(runtime.spawn(killed.gone()));
        }
    }
}

/// What is left of a group that was killed when it was dropped.
struct Killed {
    id: Pid,
    child: Child,
    record: Option<Record>,
    _holds: Vec<Linger>,
}

impl Killed {
    /// Waits until it is gone. The leader is reaped last, so that the id stays the group's.
    async fn gone(mut self) {
        let cgroup = self.record.as_ref().and_then(Record::cgroup).cloned();
        let gone = async {
            emptied(self.id).await;
            let ended = end_all(cgroup.as_ref()).await;
            let _reaped = self.child.wait().await;
            ended
        };
        if !matches!(timeout(GONE, gone).await, Ok(Ok(()))) {
            not_gone(self.id, self.record.take());
        }
        self.record = None;
    }
}

/// What was not waited for to the end, as when its runtime goes, stays on record: it may live.
impl Drop for Killed {
    fn drop(&mut self) {
        if let Some(record) = self.record.take() {
            record.keep();
        }
    }
}

/// Leaves what is not gone on record.
fn not_gone(group: Pid, record: Option<Record>) {
    tracing::warn!(group = group.as_raw_pid(), "killed processes are not gone yet");
    if let Some(record) = record {
        record.keep();
    }
}

fn no_leader() -> io::Error {
    io::Error::other("there is no leader")
}
