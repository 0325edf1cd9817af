//! Ends what a killed agent has left behind.

use std::fmt;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::process::getpid;
use tokio::time::{Instant, sleep, timeout_at};

use super::groups::{Groups, kill_group, kill_process};
use super::identity::{Stat, boot_id};
use super::ledger::wire::Entry;
use super::ledger::{LedgerError, record_paths};
use super::members::gone;
use crate::files::forget_file;

/// How long killed processes may take to be gone.
const PATIENCE: Duration = Duration::from_secs(10);
/// How long processes that have no environment may take until they have one.
const EXECUTION: Duration = Duration::from_secs(3);
/// How long is waited between two looks at them.
const PAUSE: Duration = Duration::from_millis(20);

/// A record that an earlier agent has left, and what has become of its process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Leftover {
    /// The name of the process; for a record that cannot be read, of its file.
    pub name: String,
    /// The pid that was recorded; `None` if the agent died before it recorded one.
    pub pid: Option<i32>,
    /// The fate of the process.
    pub fate: Fate,
}

/// The fate of a leftover.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Fate {
    /// It was running; its group was killed and is gone. The record is removed.
    Ended,
    /// It was not running any more; its pid may be that of a stranger, which was left alone. The
    /// record is removed.
    Gone,
    /// It could not be killed or, where `/proc` hides it, not be told from another; it was not gone
    /// after 10 s; or this very process is in its group. The record stays.
    Remains,
    /// The record cannot be read. It stays, for a person to look at.
    Unreadable,
}

impl fmt::Display for Fate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Ended => "it was ended",
            Self::Gone => "it was gone",
            Self::Remains => "it could not be ended",
            Self::Unreadable => "its record cannot be read",
        })
    }
}

/// Ends the process groups that are recorded in `folder` by an agent that was killed.
///
/// Call it before the first process is spawned with a [`Ledger`](crate::Ledger) of that folder, and
/// only while no other agent uses it. A recorded process is the same one only if the boot and its
/// start time are those of the record. Where the leader is gone, or was not recorded in time, its
/// group is known by the mark in its members' environment; members that have cleared it are left
/// alone; those that have no environment, as what is just being executed, are given 3 s to have one.
/// A group is killed with SIGKILL, as is the recorded process where it has moved to another one, and
/// waited for, at most 10 s in all. A folder that does not exist has no leftovers.
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
    let until = Instant::now() + EXECUTION;
    let found = loop {
        let (owned, is_last) = (folder.to_owned(), Instant::now() >= until);
        let found = tokio::task::spawn_blocking(move || kill_recorded(&owned, is_last)).await;
        let found = found
            .unwrap_or_else(|err| Err(LedgerError::new("search", folder, io::Error::other(err))))?;
        match found {
            Some(found) => break found,
            None => sleep(PAUSE).await,
        }
    };
    let deadline = Instant::now() + PATIENCE;
    let mut leftovers = Vec::with_capacity(found.len());
    for mut one in found {
        for process in one.dying {
            if timeout_at(deadline, gone(process)).await.is_err() {
                one.leftover.fate = Fate::Remains;
            }
        }
        if matches!(one.leftover.fate, Fate::Ended | Fate::Gone) {
            forget_file(&one.path)
                .map_err(|err| LedgerError::new("remove the record", &one.path, err.into()))?;
        }
        let Leftover { name, pid, fate } = &one.leftover;
        tracing::info!(process = name, pid, %fate, "leftover process");
        leftovers.push(one.leftover);
    }
    Ok(leftovers)
}

struct Found {
    leftover: Leftover,
    path: PathBuf,
    /// The killed processes that may take a moment to be gone.
    dying: Vec<OwnedFd>,
}

/// Kills the groups of all records; none, with nothing done, if there is more to know of one of them
/// and this look is not the last.
fn kill_recorded(folder: &Path, is_last: bool) -> Result<Option<Vec<Found>>, LedgerError> {
    let paths = record_paths(folder)?;
    if paths.is_empty() {
        return Ok(Some(Vec::new()));
    }
    let failed = |err| LedgerError::new("look for the processes of", folder, err);
    let boot_id = boot_id().map_err(failed)?;
    let running = Stat::read_all().map_err(failed)?;
    let mut records = Vec::with_capacity(paths.len());
    for path in paths {
        let entry = Entry::read(&path);
        let known = entry.as_ref().ok().filter(|entry| entry.boot_id == boot_id);
        let groups = known
            .map_or_else(|| Ok(Groups::none()), |entry| Groups::of(entry, &running))
            .map_err(failed)?;
        if groups.is_unsure && !is_last {
            return Ok(None);
        }
        records.push((path, entry, groups));
    }
    let found = records.into_iter().map(|(path, entry, groups)| match entry {
        Ok(entry) => kill_one(path, entry, groups, &running),
        Err(err) => unreadable(path, &err),
    });
    Ok(Some(found.collect()))
}

fn unreadable(path: PathBuf, error: &(dyn std::error::Error + 'static)) -> Found {
    tracing::warn!(?path, error, "cannot read process record");
    let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let leftover = Leftover { name, pid: None, fate: Fate::Unreadable };
    Found { leftover, path, dying: Vec::new() }
}

fn kill_one(path: PathBuf, entry: Entry, groups: Groups, running: &[Stat]) -> Found {
    let mut dying = Vec::new();
    let mut fate = if groups.is_hidden { Fate::Remains } else { Fate::Gone };
    for group in groups.own {
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
    let pid = entry.process.map(|process| process.id);
    if fate != Fate::Remains
        && let Some(leader) = groups.leader
    {
        match kill_leader(pid, &leader) {
            Ok(()) => fate = Fate::Ended,
            Err(err) => {
                let error: &dyn std::error::Error = &err;
                tracing::warn!(process = entry.name, pid, error, "cannot kill leftover");
                fate = Fate::Remains;
            }
        }
        dying.push(leader);
    }
    Found { leftover: Leftover { name: entry.name, pid, fate }, path, dying }
}

/// Kills a recorded process, in whatever group it is.
fn kill_leader(pid: Option<i32>, leader: &OwnedFd) -> io::Result<()> {
    if pid == Some(getpid().as_raw_pid()) {
        return Err(io::Error::other("it is this process"));
    }
    kill_process(leader)
}
