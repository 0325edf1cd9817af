//! A process that an earlier agent has left for a later one.

use std::io;
use std::os::fd::OwnedFd;
use std::time::Duration;

use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, pidfd_open};

use super::groups::may_be_recorded;
use super::identity::{Stat, boot_id, is_hidden};
use super::ledger::wire::Entry;
use super::readiness::Readiness;
use super::stop_signal::StopSignal;

/// A process that an earlier agent has left running, and that another one may adopt. It may have
/// ended since.
#[derive(Debug, Clone)]
#[must_use = "nobody looks after the process"]
pub struct Survivor {
    pub(super) entry: Entry,
    pid: i32,
}

impl Survivor {
    /// Returns the survivor of a record, if it is of a process that may be adopted. A command whose
    /// daemon is not found may not: it ends soon, and nobody looks for the daemon any more.
    pub(super) fn of(entry: &Entry) -> Option<Self> {
        let may_survive = entry.adoption.is_some() && !entry.awaits_daemon;
        let process = entry.process.filter(|_| may_survive)?;
        Some(Self { entry: entry.clone(), pid: process.id })
    }

    /// Returns the name of the process.
    pub fn name(&self) -> &str {
        &self.entry.name
    }

    /// Returns the pid of the leader, which is the group's id.
    pub fn pid(&self) -> i32 {
        self.pid
    }

    /// Returns the [`digest`](crate::ProcessConfig::digest) that it was started with.
    pub fn digest(&self) -> &str {
        self.entry.adoption.as_ref().map_or("", |adoption| &adoption.digest)
    }

    /// Returns whether it counts as ready: it was ready, or it may have become ready while no agent
    /// read its messages.
    pub(super) fn is_ready(&self, readiness: &Readiness) -> bool {
        let was_ready = self.entry.adoption.as_ref().is_some_and(|adoption| adoption.is_ready);
        was_ready
            || matches!(
                readiness,
                Readiness::Spawned | Readiness::Line(_) | Readiness::Notify { .. }
            )
    }

    /// Returns the signal that asks it to end, and how long it may take then.
    pub(super) fn ending(&self) -> (StopSignal, Duration) {
        let Some(adoption) = &self.entry.adoption else {
            return (StopSignal::default(), Duration::ZERO);
        };
        let mut known = StopSignal::ALL.into_iter();
        let signal = known.find(|signal| signal.name() == adoption.stop_signal);
        (signal.unwrap_or_default(), Duration::from_millis(adoption.grace_ms))
    }
}

/// Returns the descriptor of the recorded process, if it surely is the one that runs: the boot, its
/// start time and its mark are those of the record. Blocks for `/proc`.
pub(super) fn find(entry: &Entry) -> io::Result<Option<OwnedFd>> {
    let Some(process) = entry.process.filter(|_| entry.adoption.is_some()) else {
        return Ok(None);
    };
    let Some(id) = Pid::from_raw(process.id) else { return Ok(None) };
    // Opened before it is identified: later, the kernel may give the pid to another process.
    let opened = match pidfd_open(id, PidfdFlags::NONBLOCK) {
        Err(Errno::SRCH) => return Ok(None),
        opened => opened?,
    };
    let found = match Stat::read(process.id) {
        Err(err) if is_hidden(&err) => None,
        found => found?,
    };
    let is_same =
        found.is_some_and(|found| !found.is_dead && found.start_time == process.start_time);
    let is_own =
        is_same && entry.boot_id == boot_id()? && may_be_recorded(entry, process.id) == Some(true);
    Ok(is_own.then_some(opened))
}
