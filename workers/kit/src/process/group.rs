//! A process group that does not outlive its owner.
//!
//! Invariants:
//! 1. The leader is reaped only in `Group::reap` and, after a drop, by the runtime; both come after
//!    the group was killed. Until then the leader's pid, which is the group's id, is not recycled,
//!    so no signal can reach a stranger.
//! 2. The record is removed only after the group was killed.

use std::io;
use std::process::ExitStatus;
use std::sync::Arc;

use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal, kill_process_group, pidfd_open, pidfd_send_signal};
use tokio::io::Interest;
use tokio::process::{Child, ChildStderr, ChildStdout};

use crate::readiness::{ReadyFd, register};

use super::identity::Stat;
use super::ledger::Record;

/// The group of a child that leads it; dropping it kills every process in the group.
#[derive(Debug)]
pub(super) struct Group {
    id: Pid,
    child: Child,
    leader: Option<ReadyFd>,
    record: Option<Record>,
}

impl Group {
    /// Takes a child that was just spawned as the leader of a group of its own.
    ///
    /// # Errors
    ///
    /// Returns an error, and kills the group, if the leader cannot be watched.
    pub(super) fn new(child: Child, record: Option<Record>) -> io::Result<Self> {
        let id = child.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw);
        let id = id.ok_or_else(|| io::Error::other("the child has no process id"))?;
        let mut group = Self { id, child, leader: None, record };
        let leader = pidfd_open(id, PidfdFlags::NONBLOCK)?;
        group.leader = Some(register(Arc::new(leader), Interest::READABLE)?);
        Ok(group)
    }

    pub(super) fn id(&self) -> Pid {
        self.id
    }

    /// Takes the record to change it; give it back with [`Group::set_record`].
    pub(super) fn take_record(&mut self) -> Option<Record> {
        self.record.take()
    }

    pub(super) fn set_record(&mut self, record: Record) {
        self.record = Some(record);
    }

    pub(super) fn take_output(&mut self) -> (Option<ChildStdout>, Option<ChildStderr>) {
        (self.child.stdout.take(), self.child.stderr.take())
    }

    /// Waits until the leader has ended; it stays unreaped. Cancel safe.
    pub(super) async fn leader_ended(&self) -> io::Result<()> {
        let leader = self.leader.as_ref().ok_or_else(|| io::Error::other("no leader"))?;
        leader.readable().await.map(drop)
    }

    /// Returns how many processes other than the leader live in the group. Blocks for `/proc`.
    pub(super) fn others(id: Pid) -> io::Result<usize> {
        let id = id.as_raw_pid();
        let is_other = |stat: &&Stat| stat.group == id && stat.id != id && !stat.is_dead;
        Ok(Stat::read_all()?.iter().filter(is_other).count())
    }

    /// Asks every process in the group to end, also a stopped one.
    pub(super) fn ask_to_end(&self, signal: Signal) -> io::Result<()> {
        match kill_process_group(self.id, signal) {
            Ok(()) => Ok(kill_process_group(self.id, Signal::CONT)?),
            // The leader has moved to another group and nobody is left in this one.
            Err(Errno::SRCH) => Ok(self.signal_leader(signal)?),
            Err(err) => Err(err.into()),
        }
    }

    /// Kills the group and reaps the leader. Cancel safe: dropping the group does the same.
    pub(super) async fn reap(&mut self) -> io::Result<ExitStatus> {
        self.kill()?;
        let status = self.child.wait().await?;
        self.record = None;
        Ok(status)
    }

    fn kill(&self) -> rustix::io::Result<()> {
        match kill_process_group(self.id, Signal::KILL) {
            Ok(()) | Err(Errno::SRCH) => self.signal_leader(Signal::KILL),
            Err(err) => Err(err),
        }
    }

    fn signal_leader(&self, signal: Signal) -> rustix::io::Result<()> {
        let Some(leader) = &self.leader else { return Ok(()) };
        match pidfd_send_signal(leader.get_ref(), signal) {
            Err(Errno::SRCH) => Ok(()),
            result => result,
        }
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // Invariant 1: a child that was reaped has no id, and the group's id may be another's.
        if self.child.id().is_none() {
            return;
        }
        if let Err(err) = self.kill() {
            let error: &dyn std::error::Error = &err;
            tracing::warn!(group = self.id.as_raw_pid(), error, "cannot kill process group");
            if let Some(record) = self.record.take() {
                record.keep();
            }
        }
    }
}
