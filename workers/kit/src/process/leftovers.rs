//! Ends what a killed agent has left behind.

use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::io::Errno;
use rustix::process::{Pid, Signal, getpgrp, kill_process_group};
use tokio::time::{Instant, timeout_at};

use super::group::{gone, members};
use super::identity::{Stat, boot_id, has_variable};
use super::ledger::wire::Entry;
use super::ledger::{LedgerError, MARK, record_paths};

/// How long killed processes may take to be gone.
const PATIENCE: Duration = Duration::from_secs(10);

/// A record that an earlier agent has left, and what has become of its process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Leftover {
    /// The name of the process; for a record that cannot be read, of its file.
    pub name: String,
    /// The pid that was recorded; `None` if the agent died before it recorded one.
    pub pid: Option<i32>,
    /// What has become of it.
    pub fate: Fate,
}

/// What has become of a leftover.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Fate {
    /// It was running; its group was killed and is gone. The record is removed.
    Ended,
    /// It was not running any more; its pid may be that of a stranger, which was left alone. The
    /// record is removed.
    Gone,
    /// It could not be killed, was not gone after 10 s, or this very process is in its group. The
    /// record stays.
    Remains,
    /// The record cannot be read. It stays, for a person to look at.
    Unreadable,
}

/// Ends the process groups that are recorded in `folder` by an agent that was killed.
///
/// Call it before the first process is spawned with a [`Ledger`](crate::Ledger) of that folder, and
/// only while no other agent uses it. A recorded process is the same one only if the boot and its
/// start time are those of the record. Where the leader is gone, or was not recorded in time, its
/// group is known by the mark in its members' environment; members that have cleared it are left
/// alone. A group is killed with SIGKILL and waited for, at most 10 s in all. A folder that does not
/// exist has no leftovers.
///
/// # Errors
///
/// Returns an error if the folder, a record or `/proc` cannot be read, or a record not removed.
///
/// # Panics
///
/// Panics outside of a tokio runtime with its I/O and time drivers enabled.
///
/// # Cancel safety
///
/// Cancel safe: a record stays until its group is gone.
pub async fn end_leftovers(folder: &Path) -> Result<Vec<Leftover>, LedgerError> {
    let owned = folder.to_owned();
    let found = tokio::task::spawn_blocking(move || kill_recorded(&owned)).await;
    let found = found
        .unwrap_or_else(|err| Err(LedgerError::new("search", folder, io::Error::other(err))))?;
    let deadline = Instant::now() + PATIENCE;
    let mut leftovers = Vec::with_capacity(found.len());
    for mut one in found {
        for process in one.dying {
            if timeout_at(deadline, gone(process)).await.is_err() {
                one.leftover.fate = Fate::Remains;
            }
        }
        if matches!(one.leftover.fate, Fate::Ended | Fate::Gone) {
            fs::remove_file(&one.path)
                .map_err(|err| LedgerError::new("remove the record", &one.path, err))?;
        }
        let Leftover { name, pid, fate } = &one.leftover;
        tracing::info!(process = name, pid, ?fate, "leftover process");
        leftovers.push(one.leftover);
    }
    Ok(leftovers)
}

struct Found {
    leftover: Leftover,
    path: PathBuf,
    /// What was killed and may take a moment to be gone.
    dying: Vec<OwnedFd>,
}

fn kill_recorded(folder: &Path) -> Result<Vec<Found>, LedgerError> {
    let paths = record_paths(folder)?;
    if paths.is_empty() {
        return Ok(Vec::new());
    }
    let failed = |err| LedgerError::new("look for the processes of", folder, err);
    let boot_id = boot_id().map_err(failed)?;
    let running = Stat::read_all().map_err(failed)?;
    paths.into_iter().map(|path| kill_one(path, &boot_id, &running).map_err(failed)).collect()
}

fn kill_one(path: PathBuf, boot_id: &str, running: &[Stat]) -> io::Result<Found> {
    let entry = match Entry::read(&path) {
        Ok(entry) => entry,
        Err(err) => {
            let error: &dyn std::error::Error = &err;
            tracing::warn!(?path, error, "cannot read process record");
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            let leftover = Leftover { name, pid: None, fate: Fate::Unreadable };
            return Ok(Found { leftover, path, dying: Vec::new() });
        }
    };
    let mut dying = Vec::new();
    let mut fate = Fate::Gone;
    if entry.boot_id == boot_id {
        for group in groups(&entry, running)? {
            match kill_group(group, running, &mut dying) {
                Ok(true) if fate == Fate::Gone => fate = Fate::Ended,
                Ok(_) => {}
                Err(err) => {
                    let error: &dyn std::error::Error = &err;
                    tracing::warn!(process = entry.name, group, error, "cannot kill leftover");
                    fate = Fate::Remains;
                }
            }
        }
    }
    let pid = entry.process.map(|process| process.id);
    Ok(Found { leftover: Leftover { name: entry.name, pid, fate }, path, dying })
}

/// Returns the groups that are certainly those of the record.
fn groups(entry: &Entry, running: &[Stat]) -> io::Result<Vec<i32>> {
    let is_marked = |stat: &&Stat| has_variable(stat.id, MARK, &entry.token);
    let Some(process) = entry.process else {
        let leaders = running.iter().filter(|stat| stat.id == stat.group).filter(is_marked);
        return Ok(leaders.map(|stat| stat.group).collect());
    };
    let is_same = match Stat::read(process.id)? {
        Some(leader) => leader.start_time == process.start_time,
        // The kernel gives a pid to nobody while a group of that id lives, but this may be the
        // group of a later leader that is gone as well.
        None => running.iter().filter(|stat| stat.group == process.id).any(|stat| is_marked(&stat)),
    };
    Ok(if is_same { vec![process.id] } else { Vec::new() })
}

/// Kills a group and returns whether it was there.
fn kill_group(group: i32, running: &[Stat], dying: &mut Vec<OwnedFd>) -> io::Result<bool> {
    let Some(id) = Pid::from_raw(group) else { return Ok(false) };
    if id == getpgrp() {
        return Err(io::Error::other("this process is in that group"));
    }
    dying.extend(members(group, running)?);
    match kill_process_group(id, Signal::KILL) {
        Ok(()) => Ok(true),
        Err(Errno::SRCH) => Ok(false),
        Err(err) => Err(err.into()),
    }
}
