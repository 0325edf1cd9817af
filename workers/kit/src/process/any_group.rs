//! The group of a process that this agent or an earlier one has started.

use std::io;
use std::process::ExitStatus;
use std::time::Duration;

use crankcase_engine::owner::Linger;

use super::adopted::AdoptedGroup;
use super::escaped::{Escaped, escaped};
use super::group::ProcessGroup;
use super::ledger::Record;
use super::ledger::wire::Entry;
use super::stop_signal::StopSignal;

/// The group of a process. Dropping it kills the group.
#[derive(Debug)]
pub(super) enum AnyGroup {
    /// Its leader is a child of this process.
    Own(Box<ProcessGroup>),
    /// An earlier agent has started it, or it is a daemon.
    Adopted(Box<AdoptedGroup>),
}

impl AnyGroup {
    pub(super) fn hold(&mut self, linger: Linger) {
        match self {
            Self::Own(group) => group.hold(linger),
            Self::Adopted(group) => group.hold(linger),
        }
    }

    /// Returns whether another agent may adopt it.
    pub(super) fn survives(&self) -> bool {
        match self {
            Self::Own(group) => group.spool().is_some(),
            Self::Adopted(group) => group.spool().is_some(),
        }
    }

    /// Notes on record that the process is ready, for an agent that adopts it. If that fails, the
    /// other agent waits until the process is ready once more.
    pub(super) async fn note_ready(&self) {
        let Some(entry) = self.record().and_then(Record::ready) else { return };
        let noted = tokio::task::spawn_blocking(move || entry.replace()).await;
        if let Err(err) = noted.unwrap_or_else(|err| Err(io::Error::other(err))) {
            let error: &dyn std::error::Error = &err;
            tracing::warn!(error, "cannot note that a process is ready");
        }
    }

    /// Waits until the leader has ended. Cancel safe.
    pub(super) async fn leader_ended(&self) -> io::Result<()> {
        match self {
            Self::Own(group) => group.leader_ended().await,
            Self::Adopted(group) => group.leader_ended().await,
        }
    }

    /// Returns the processes that have left the group of a leader that has ended, if the leader may
    /// have daemonised.
    pub(super) async fn escaped(&self) -> Option<Vec<Escaped>> {
        let Self::Own(group) = self else { return None };
        if !group.may_have_daemonised() {
            return None;
        }
        match group.record().and_then(Record::entry) {
            // All that it has started is in its cgroup, and is left behind there.
            Some(entry) if entry.cgroup.is_none() => Some(escaped(entry.clone()).await),
            _ => Some(Vec::new()),
        }
    }

    /// Returns the content of the record, if there is one and the process has no cgroup.
    pub(super) fn without_cgroup(&self) -> Option<&Entry> {
        let entry = self.record().and_then(Record::entry);
        entry.filter(|entry| entry.cgroup.is_none())
    }

    /// Asks every process in the group to end, and waits for the leader; returns whether it has
    /// ended within `grace`.
    pub(super) async fn ask_to_end(&self, signal: StopSignal, grace: Duration) -> io::Result<bool> {
        match self {
            Self::Own(group) => group.ask_to_end(signal, grace).await,
            Self::Adopted(group) => group.ask_to_end(signal, grace).await,
        }
    }

    /// Kills the group, and waits until it is gone; returns how the leader has ended, if that can
    /// be known, and how many other processes the group had.
    pub(super) async fn reap(&mut self) -> io::Result<(Option<ExitStatus>, usize)> {
        match self {
            Self::Own(group) => group.reap().await.map(|(status, count)| (Some(status), count)),
            Self::Adopted(group) => group.reap().await.map(|count| (None, count)),
        }
    }

    /// Returns the record of the group, if it is on record.
    pub(super) fn record(&self) -> Option<&Record> {
        match self {
            Self::Own(group) => group.record(),
            Self::Adopted(group) => group.record(),
        }
    }

    /// Leaves the group running, and on record for the next agent.
    pub(super) fn leave(self) {
        match self {
            Self::Own(group) => group.leave(),
            Self::Adopted(group) => group.leave(),
        }
    }
}
