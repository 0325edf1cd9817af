//! The processes of a group, and their ends.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use rustix::process::{Pid, PidfdFlags, pidfd_open};
use tokio::io::Interest;

use crate::readiness::register;

use super::identity::{Stat, is_hidden};

/// Returns the live processes in a group other than its leader, as far as they may be looked at. That
/// nobody can be found is no matter: all are killed.
pub(super) async fn others(group: Pid) -> Vec<OwnedFd> {
    let group = group.as_raw_pid();
    let find = move || {
        let is_other = |stat: &Stat| stat.id != group && !stat.is_dead;
        let all: Vec<_> = Stat::read_all()?.into_iter().filter(is_other).collect();
        members(group, &all)
    };
    let found = tokio::task::spawn_blocking(find).await;
    found.unwrap_or_else(|err| Err(io::Error::other(err))).unwrap_or_else(|err| {
        let error: &dyn std::error::Error = &err;
        tracing::warn!(group, error, "cannot look for the processes of a group");
        Vec::new()
    })
}

/// Returns those of the processes `among` that are in a group, as what tells their ends. Blocks for
/// `/proc`.
pub(super) fn members(group: i32, among: &[Stat]) -> io::Result<Vec<OwnedFd>> {
    let mut members = Vec::new();
    for member in among.iter().filter(|stat| stat.group == group) {
        members.extend(open(member)?);
    }
    Ok(members)
}

/// Returns a descriptor of a process, unless the process is gone, has changed its group or is
/// hidden. Blocks for `/proc`.
pub(super) fn open(process: &Stat) -> io::Result<Option<OwnedFd>> {
    let Some(pid) = Pid::from_raw(process.id) else { return Ok(None) };
    let Ok(opened) = pidfd_open(pid, PidfdFlags::NONBLOCK) else { return Ok(None) };
    // The id may be another's since it was looked at.
    let found = match Stat::read(process.id) {
        Err(err) if is_hidden(&err) => None,
        found => found?,
    };
    Ok(found.is_some_and(|found| found.is_same(process)).then_some(opened))
}

/// Waits until nobody but the leader is in a group that was killed: who was killed begins no others.
pub(super) async fn emptied(group: Pid) {
    for process in others(group).await {
        gone(process).await;
    }
}

/// Waits until the process is dead; a parent that does not reap it is not waited for.
pub(super) async fn gone(process: OwnedFd) {
    if let Ok(process) = register(Arc::new(process), Interest::READABLE) {
        let _ended = process.readable().await;
    }
}
