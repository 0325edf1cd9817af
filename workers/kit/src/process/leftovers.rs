//! Ends what a killed agent has left behind.

use std::fmt;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::io::Errno;
use rustix::process::{
    Pid, PidfdFlags, Signal, getpid, kill_process_group, pidfd_open, pidfd_send_signal,
};
use tokio::time::{Instant, sleep, timeout_at};

use super::identity::{Stat, boot_id, has_variable, is_hidden};
use super::ledger::wire::Entry;
use super::ledger::{LedgerError, MARK, record_paths};
use super::members::{gone, members};
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

/// The process groups that may belong to a record.
struct Groups {
    /// The groups that certainly belong to the record.
    own: Vec<i32>,
    /// The recorded process itself, which may have moved to another group.
    leader: Option<OwnedFd>,
    /// Whether a process has no environment yet, and may show one when it has been executed.
    is_unsure: bool,
    /// Whether a process that may belong to the record is hidden from this user.
    is_hidden: bool,
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

impl Groups {
    fn none() -> Self {
        Self { own: Vec::new(), leader: None, is_unsure: false, is_hidden: false }
    }

    /// Looks for the groups of a record.
    fn of(entry: &Entry, running: &[Stat]) -> io::Result<Self> {
        let (mut leader, mut is_unsure, mut is_leader_hidden) = (None, false, false);
        let mut is_marked = |stat: &&Stat| {
            let is_marked = has_variable(stat.id, MARK, &entry.token);
            is_unsure |= is_marked.is_none();
            is_marked == Some(true)
        };
        let living = running.iter().filter(|stat| !stat.is_dead);
        let own: Vec<_> = match entry.process {
            None => {
                let leaders = living.filter(|stat| stat.id == stat.group).filter(&mut is_marked);
                leaders.map(|stat| stat.group).collect()
            }
            Some(process) => {
                // Opened before it is identified: after that, the pid may become another's.
                let opened = Pid::from_raw(process.id)
                    .map_or(Err(Errno::SRCH), |id| pidfd_open(id, PidfdFlags::NONBLOCK));
                let found = match Stat::read(process.id) {
                    Err(err) if is_hidden(&err) => {
                        is_leader_hidden = true;
                        None
                    }
                    found => found?,
                };
                let is_same = match found {
                    Some(found) if found.start_time == process.start_time => {
                        leader = match opened {
                            Err(Errno::SRCH) => None,
                            opened => Some(opened?),
                        };
                        true
                    }
                    Some(_) => false,
                    // The kernel gives a pid to nobody while a group of that id lives, but this may be
                    // the group of a later leader that is gone as well, or hidden.
                    None => {
                        living.filter(|stat| stat.group == process.id).any(|stat| is_marked(&stat))
                    }
                };
                is_same.then_some(process.id).into_iter().collect()
            }
        };
        let is_nobody = own.is_empty();
        Ok(Self {
            own,
            leader,
            is_unsure: is_unsure && is_nobody,
            is_hidden: is_leader_hidden && is_nobody,
        })
    }
}

/// Kills a group and returns whether it was there. It is the group that was seen if a process that
/// was seen is still in it: until that is reaped, the kernel gives the group's id to nobody.
///
/// The processes are killed by their descriptors, and by the group's id only who was begun meanwhile.
fn kill_group(group: i32, seen: &[Stat], dying: &mut Vec<OwnedFd>) -> io::Result<bool> {
    let Some(id) = Pid::from_raw(group) else { return Ok(false) };
    // Not by `getpgrp`, which has no answer where the group's leader is outside of the container.
    if Stat::read(getpid().as_raw_pid())?.is_none_or(|own| own.group == group) {
        return Err(io::Error::other("this process is in that group"));
    }
    let now = Stat::read_all()?;
    let was_seen = |stat: &Stat| seen.iter().any(|seen| seen.is_same(stat));
    if !now.iter().any(|stat| stat.group == group && was_seen(stat)) {
        return Ok(false);
    }
    for process in members(group, &now)? {
        kill_process(&process)?;
        dying.push(process);
    }
    match kill_process_group(id, Signal::KILL) {
        Ok(()) | Err(Errno::SRCH) => Ok(true),
        Err(err) => Err(err.into()),
    }
}

/// Kills a recorded process, in whatever group it is.
fn kill_leader(pid: Option<i32>, leader: &OwnedFd) -> io::Result<()> {
    if pid == Some(getpid().as_raw_pid()) {
        return Err(io::Error::other("it is this process"));
    }
    kill_process(leader)
}

fn kill_process(process: &OwnedFd) -> io::Result<()> {
    match pidfd_send_signal(process, Signal::KILL) {
        Ok(()) | Err(Errno::SRCH) => Ok(()),
        Err(err) => Err(err.into()),
    }
}

#[cfg(test)]
mod tests {
    use std::error::Error;
    use std::os::unix::process::{CommandExt, ExitStatusExt};
    use std::process::Command;

    use rustix::process::{Pid, Signal};

    use super::{Stat, kill_group};

    #[test]
    fn a_group_whose_id_has_become_anothers_since_it_was_seen_is_left_alone()
    -> Result<(), Box<dyn Error>> {
        let mut stranger = Command::new("sleep").arg("1000").process_group(0).spawn()?;
        let id = i32::try_from(stranger.id())?;
        let stat = Stat::read(id)?.ok_or("no such process")?;
        let seen = Stat { start_time: stat.start_time - 1, ..stat };

        let was_there = kill_group(id, &[seen], &mut Vec::new())?;

        // A signal that came before would have ended it.
        rustix::process::kill_process(Pid::from_raw(id).ok_or("no pid")?, Signal::TERM)?;
        assert_eq!((was_there, stranger.wait()?.signal()), (false, Some(Signal::TERM.as_raw())));
        Ok(())
    }
}
