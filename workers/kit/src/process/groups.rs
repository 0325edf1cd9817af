//! The process groups that belong to a record.

use std::io;
use std::os::fd::OwnedFd;

use rustix::io::Errno;
use rustix::process::{
    Pid, PidfdFlags, Signal, getpid, kill_process_group, pidfd_open, pidfd_send_signal,
};

use super::identity::{Stat, has_overwritten_environment, has_variable, is_hidden};
use super::ledger::MARK;
use super::ledger::wire::{Entry, Identity};
use super::members::members;
use super::spool::Spool;

/// The process groups that may belong to a record.
pub(super) struct Groups {
    /// The groups that certainly belong to the record.
    pub(super) own: Vec<i32>,
    /// The recorded process itself, which may have moved to another group.
    pub(super) leader: Option<OwnedFd>,
    /// Whether a process has no environment yet, and may show one when it has been executed.
    pub(super) is_unsure: bool,
    /// Whether a process that may belong to the record is hidden from this user.
    pub(super) is_hidden: bool,
}

impl Groups {
    pub(super) fn none() -> Self {
        Self { own: Vec::new(), leader: None, is_unsure: false, is_hidden: false }
    }

    /// Looks for the groups of a record.
    pub(super) fn of(entry: &Entry, running: &[Stat]) -> io::Result<Self> {
        let (mut leader, mut is_unsure, mut is_leader_hidden) = (None, false, false);
        let mut is_marked = |stat: &&Stat| {
            let is_marked = bears_mark(entry, stat.id);
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
                // Opened before it is identified: later, the kernel may give the pid to another
                // process.
                let opened = Pid::from_raw(process.id)
                    .map_or(Err(Errno::SRCH), |id| pidfd_open(id, PidfdFlags::NONBLOCK));
                let found = match Stat::read(process.id) {
                    Err(err) if is_hidden(&err) => {
                        is_leader_hidden = true;
                        None
                    }
                    found => found?,
                };
                let is_same = found.is_some_and(|found| found.start_time == process.start_time);
                if is_same {
                    leader = match opened {
                        Err(Errno::SRCH) => None,
                        opened => Some(opened?),
                    };
                }
                let mut is_own = |group: i32| match found {
                    // The kernel gives a pid to nobody while a process or a group has that id.
                    Some(_) if group == process.id => is_same,
                    Some(found) if is_same && group == found.group => true,
                    // This may be the group of a later leader that is gone as well, or hidden. So
                    // it may if a daemon has left the group that it was in when it was recorded.
                    _ => living.clone().filter(|stat| stat.group == group).any(|it| is_marked(&it)),
                };
                let mut groups = vec![process.id, process.group()];
                groups.dedup();
                groups.retain(|group| is_own(*group));
                if entry.awaits_daemon {
                    // Threads of the kernel are in no group.
                    let later = |it: &&Stat| it.group > 0 && it.start_time >= process.start_time;
                    groups.extend(living.filter(later).filter(is_marked).map(|it| it.group));
                    groups.sort_unstable();
                    groups.dedup();
                }
                groups
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

    /// Looks for the groups of a record whose process was watched until now, or until it ended just
    /// now. So its group cannot be that of a later process, and what has overwritten its mark
    /// belongs to it too: the workers of nginx run on without their master.
    pub(super) fn of_watched(entry: &Entry, running: &[Stat]) -> io::Result<Self> {
        let mut groups = Self::of(entry, running)?;
        if let Some(process) = entry.process.filter(|_| groups.own.is_empty()) {
            groups.own.extend(unmarked_group(process, running, has_overwritten_environment));
        }
        Ok(groups)
    }
}

/// Returns the group of a process that has ended just now, if one of its later members `may_belong`
/// to it, and the id of the group is no pid again. Blocks for `/proc`.
fn unmarked_group(
    ended: Identity,
    running: &[Stat],
    may_belong: impl Fn(i32) -> bool,
) -> Option<i32> {
    let group = ended.group();
    let is_later = |stat: &Stat| !stat.is_dead && stat.start_time >= ended.start_time;
    let is_member = |stat: &Stat| stat.group == group && is_later(stat) && may_belong(stat.id);
    let is_free = running.iter().all(|stat| stat.id != group);
    (is_free && running.iter().any(is_member)).then_some(group)
}

/// Returns whether a process belongs to the record: it is in the cgroup of the record, it writes to
/// the files beside the record, or it has the mark in its environment. `None` if it has no
/// environment yet. Blocks for `/proc`.
pub(super) fn bears_mark(entry: &Entry, id: i32) -> Option<bool> {
    let is_inside = entry.cgroup.as_ref().is_some_and(|cgroup| cgroup.holds(id));
    let is_own = is_inside || (entry.adoption.is_some() && Spool::of(&entry.path).is_held_by(id));
    if is_own { Some(true) } else { has_variable(id, MARK, &entry.token) }
}

/// Returns whether a process with the pid and the start time of the record may be the recorded one.
/// It may if it is marked, or if it has overwritten its mark, as a program does that shows a title
/// of its own. Blocks for `/proc`.
pub(super) fn may_be_recorded(entry: &Entry, id: i32) -> Option<bool> {
    let is_marked = bears_mark(entry, id);
    is_marked.map(|is_marked| is_marked || has_overwritten_environment(id))
}

/// Returns whether the process with the pid and the start time of a record is another one than the
/// recorded process. Only the records of processes that may be adopted can tell. Blocks for
/// `/proc`.
pub(super) fn names_a_stranger(entry: &Entry) -> bool {
    let Some(process) = entry.process.filter(|_| entry.adoption.is_some()) else { return false };
    let is_there = Stat::read(process.id).is_ok_and(|stat| {
        stat.is_some_and(|stat| !stat.is_dead && stat.start_time == process.start_time)
    });
    is_there && may_be_recorded(entry, process.id) == Some(false)
}

/// Kills a group and returns whether it was there. Kills it only if a process that was seen is
/// still in it: until that process is reaped, the kernel gives the group's id to no other group.
///
/// The processes are killed by their descriptors. The signal to the group's id kills only those
/// processes that were started meanwhile.
pub(super) fn kill_group(group: i32, seen: &[Stat], dying: &mut Vec<OwnedFd>) -> io::Result<bool> {
    let Some(id) = Pid::from_raw(group) else { return Ok(false) };
    refuse_own(group)?;
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

/// Refuses the group that this process is in.
pub(super) fn refuse_own(group: i32) -> io::Result<()> {
    // Not by `getpgrp`, which has no answer where the group's leader is outside of the container.
    if Stat::read(getpid().as_raw_pid())?.is_none_or(|own| own.group == group) {
        return Err(io::Error::other("this process is in that group"));
    }
    Ok(())
}

pub(super) fn kill_process(process: &OwnedFd) -> io::Result<()> {
    signal_process(process, Signal::KILL)
}

/// Sends a signal to a process, unless it is gone.
pub(super) fn signal_process(process: &OwnedFd, signal: Signal) -> io::Result<()> {
    match pidfd_send_signal(process, signal) {
        Ok(()) | Err(Errno::SRCH) => Ok(()),
        Err(err) => Err(err.into()),
    }
}

#[cfg(test)]
mod tests {
    use std::error::Error;
    use std::os::unix::process::{CommandExt, ExitStatusExt};
    use std::path::PathBuf;
    use std::process::Command;

    use rustix::process::{Pid, Signal};

    use super::{Entry, Groups, Identity, Stat, kill_group, unmarked_group};

    /// Returns the record of a daemon that was in a group when it was recorded.
    fn recorded(id: i32, group: i32) -> Result<Entry, Box<dyn Error>> {
        let start_time = Stat::read(id)?.ok_or("no such process")?.start_time;
        Ok(Entry {
            name: "it".to_owned(),
            boot_id: String::new(),
            token: "nobody bears this".to_owned(),
            process: Some(Identity { id, start_time, group: Some(group) }),
            adoption: None,
            awaits_daemon: false,
            cgroup: None,
            path: PathBuf::new(),
        })
    }

    #[test]
    fn a_group_that_a_daemon_has_left_since_it_was_recorded_is_left_alone()
    -> Result<(), Box<dyn Error>> {
        let mut daemon = Command::new("sleep").arg("1000").process_group(0).spawn()?;
        let mut stranger = Command::new("sleep").arg("1000").process_group(0).spawn()?;
        let (id, other) = (i32::try_from(daemon.id())?, i32::try_from(stranger.id())?);

        let groups = Groups::of(&recorded(id, other)?, &Stat::read_all()?)?;

        daemon.kill()?;
        daemon.wait()?;
        stranger.kill()?;
        stranger.wait()?;
        assert_eq!((groups.own, groups.leader.is_some()), (vec![id], true));
        Ok(())
    }

    #[test]
    fn a_daemon_belongs_with_the_group_that_it_is_in() -> Result<(), Box<dyn Error>> {
        let mut command = Command::new("sleep").arg("1000").process_group(0).spawn()?;
        let group = i32::try_from(command.id())?;
        let mut daemon = Command::new("sleep").arg("1000").process_group(group).spawn()?;
        let id = i32::try_from(daemon.id())?;

        let groups = Groups::of(&recorded(id, group)?, &Stat::read_all()?)?;

        daemon.kill()?;
        daemon.wait()?;
        command.kill()?;
        command.wait()?;
        assert_eq!(groups.own, [id, group]);
        Ok(())
    }

    #[test]
    fn what_has_overwritten_its_mark_belongs_to_the_group_of_a_leader_that_has_just_ended() {
        let leader = Identity { id: 7, start_time: 100, group: None };
        let (is_dead, is_suspended) = (false, false);
        let worker = Stat { id: 8, group: 7, is_dead, is_suspended, start_time: 100 };
        let next_leader = Stat { id: 7, start_time: 200, ..worker };
        let found = |running: &[Stat]| unmarked_group(leader, running, |id| id == 8);

        assert_eq!(found(&[worker]), Some(7));
        assert_eq!(found(&[worker, next_leader]), None);
        for stranger in [
            Stat { id: 9, ..worker },
            Stat { group: 6, ..worker },
            Stat { is_dead: true, ..worker },
            Stat { start_time: 99, ..worker },
        ] {
            assert_eq!(found(&[stranger]), None, "{stranger:?}");
        }
    }

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
