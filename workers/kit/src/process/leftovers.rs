//! Ends what a killed agent has left behind.

use std::fmt;
use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::time::Duration;

use rustix::process::getpid;
use tokio::time::{Instant, sleep, timeout_at};

use super::cgroup::{Cgroup, end_all};
use super::groups::{Groups, kill_group, kill_process, names_a_stranger};
use super::identity::{Stat, boot_id};
use super::ledger::wire::Entry;
use super::ledger::{LedgerError, forget, record_paths};
use super::members::gone;
use super::survivor::{Survivor, find};

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
    /// It was running, or a process in its cgroup was. All of them were killed and are gone. The
    /// record is removed.
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
/// what is in its [cgroup](crate::ProcessConfig::cgroups); all are waited for, at most 10 s in all. A
/// folder that does not exist has no leftovers. Neither has a record without a pid of which nothing
/// runs: it is removed.
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
    end_all_but(Spared::Nobody, folder).await.map(|leftovers| leftovers.ended)
}

/// The processes that an earlier agent has left.
#[derive(Debug)]
#[non_exhaustive]
pub struct Leftovers {
    /// The processes that were not to be adopted, each with its fate.
    pub ended: Vec<Leftover>,
    /// The processes that run on, for the caller to adopt, to end or to leave. They stay on record.
    /// Some may have ended by themselves; a caller that adopts such a process is told so.
    pub survivors: Vec<Survivor>,
}

/// Ends the processes that an earlier agent has left in `folder`, as [`end_leftovers`] does, except
/// those that it has left to be adopted; see [`Process::adopt_for`](crate::Process::adopt_for).
///
/// A process is adopted only if the boot, its start time and its mark are those of its record. The
/// mark is in its environment. A process that still writes to the files beside the record counts as
/// marked. A process with another mark belongs to somebody else: it is neither adopted nor ended.
///
/// # Errors
///
/// As [`end_leftovers`].
///
/// # Panics
///
/// As [`end_leftovers`].
///
/// # Cancel safety
///
/// As [`end_leftovers`].
pub async fn sort_leftovers(folder: &Path) -> Result<Leftovers, LedgerError> {
    end_all_but(Spared::Survivors, folder).await
}

/// Returns the processes that an earlier agent has left in `folder` to be adopted, and that run.
/// Nothing is ended, so that a later agent finds all as it is.
///
/// # Errors
///
/// Returns an error if the folder or `/proc` cannot be read.
///
/// # Panics
///
/// Panics outside of a tokio runtime.
///
/// # Cancel safety
///
/// Cancel safe.
pub async fn find_survivors(folder: &Path) -> Result<Vec<Survivor>, LedgerError> {
    let owned = folder.to_owned();
    let look = move || {
        let failed = |err| LedgerError::new("look for the processes of", &owned, err);
        let mut survivors = Vec::new();
        for path in record_paths(&owned)? {
            // A record that cannot be read is reported when the other processes are ended.
            let Ok(entry) = Entry::read(&path) else { continue };
            if find(&entry).map_err(failed)?.is_some() {
                survivors.extend(Survivor::of(&entry));
            }
        }
        Ok::<_, LedgerError>(survivors)
    };
    let found = tokio::task::spawn_blocking(look).await;
    found.unwrap_or_else(|err| Err(LedgerError::new("search", folder, io::Error::other(err))))
}

/// The processes that are not ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Spared {
    Nobody,
    Survivors,
}

async fn end_all_but(spared: Spared, folder: &Path) -> Result<Leftovers, LedgerError> {
    let until = Instant::now() + EXECUTION;
    let Looked { found, survivors } = loop {
        let (owned, is_last) = (folder.to_owned(), Instant::now() >= until);
        let look = move || kill_recorded(&owned, spared, is_last);
        let found = tokio::task::spawn_blocking(look).await;
        let found = found
            .unwrap_or_else(|err| Err(LedgerError::new("search", folder, io::Error::other(err))))?;
        match found {
            Some(found) => break found,
            None => sleep(PAUSE).await,
        }
    };
    let deadline = Instant::now() + PATIENCE;
    let mut ended = Vec::with_capacity(found.len());
    for mut one in found {
        for process in one.dying {
            if timeout_at(deadline, gone(process)).await.is_err() {
                one.leftover.fate = Fate::Remains;
            }
        }
        if one.leftover.fate == Fate::Ended {
            let cgroup = one.entry.as_ref().and_then(|entry| entry.cgroup.as_ref());
            if !matches!(timeout_at(deadline, end_all(cgroup)).await, Ok(Ok(()))) {
                one.leftover.fate = Fate::Remains;
            }
        }
        if matches!(one.leftover.fate, Fate::Ended | Fate::Gone)
            && let Some(entry) = &one.entry
        {
            forget(entry)
                .map_err(|err| LedgerError::new("remove the record", &entry.path, err.into()))?;
        }
        let Leftover { name, pid, fate } = &one.leftover;
        if pid.is_none() && *fate == Fate::Gone {
            // Such as the record of the health checks of a process while none is made.
            tracing::debug!(process = name, "nothing has run of a record");
            continue;
        }
        tracing::info!(process = name, pid, %fate, "leftover process");
        ended.push(one.leftover);
    }
    Ok(Leftovers { ended, survivors })
}

/// The processes that were found by all records.
struct Looked {
    found: Vec<Found>,
    survivors: Vec<Survivor>,
}

struct Found {
    leftover: Leftover,
    /// The content of the record, if it can be read.
    entry: Option<Entry>,
    /// The killed processes that may take a moment to be gone.
    dying: Vec<OwnedFd>,
}

/// Kills the groups of all records; none, with nothing done, if there is more to know of one of them
/// and this look is not the last.
fn kill_recorded(
    folder: &Path,
    spared: Spared,
    is_last: bool,
) -> Result<Option<Looked>, LedgerError> {
    let paths = record_paths(folder)?;
    let mut survivors = Vec::new();
    if paths.is_empty() {
        return Ok(Some(Looked { found: Vec::new(), survivors }));
    }
    let failed = |err| LedgerError::new("look for the processes of", folder, err);
    let boot_id = boot_id().map_err(failed)?;
    let running = Stat::read_all().map_err(failed)?;
    let mut records = Vec::with_capacity(paths.len());
    for path in paths {
        let mut entry = Entry::read(&path);
        if let Ok(entry) = &mut entry
            && entry.boot_id != boot_id
        {
            // It is gone since that boot; another one may have its name.
            entry.cgroup = None;
        }
        let known = entry.as_ref().ok().filter(|entry| entry.boot_id == boot_id);
        if let Some(entry) = known.filter(|_| spared == Spared::Survivors)
            && !names_a_stranger(entry)
            && let Some(survivor) = Survivor::of(entry)
        {
            survivors.push(survivor);
            continue;
        }
        let known = known.filter(|entry| !names_a_stranger(entry));
        let groups = known
            .map_or_else(|| Ok(Groups::none()), |entry| Groups::of(entry, &running))
            .map_err(failed)?;
        if groups.is_unsure && !is_last {
            return Ok(None);
        }
        records.push((path, entry, groups));
    }
    let found = records.into_iter().map(|(path, entry, groups)| match entry {
        Ok(entry) => kill_one(entry, groups, &running),
        Err(err) => unreadable(&path, &err),
    });
    Ok(Some(Looked { found: found.collect(), survivors }))
}

fn unreadable(path: &Path, error: &(dyn std::error::Error + 'static)) -> Found {
    tracing::warn!(?path, error, "cannot read process record");
    let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let leftover = Leftover { name, pid: None, fate: Fate::Unreadable };
    Found { leftover, entry: None, dying: Vec::new() }
}

fn kill_one(entry: Entry, groups: Groups, running: &[Stat]) -> Found {
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
    match entry.cgroup.as_ref().map(Cgroup::kill) {
        Some(Ok(true)) if fate == Fate::Gone => fate = Fate::Ended,
        Some(Err(err)) => {
            let error: &dyn std::error::Error = &err;
            tracing::warn!(process = entry.name, error, "cannot kill leftover");
            fate = Fate::Remains;
        }
        _ => {}
    }
    let leftover = Leftover { name: entry.name.clone(), pid, fate };
    Found { leftover, entry: Some(entry), dying }
}

/// Kills a recorded process, in whatever group it is.
fn kill_leader(pid: Option<i32>, leader: &OwnedFd) -> io::Result<()> {
    if pid == Some(getpid().as_raw_pid()) {
        return Err(io::Error::other("it is this process"));
    }
    kill_process(leader)
}
