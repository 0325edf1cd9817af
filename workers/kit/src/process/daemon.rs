//! The daemon that a program leaves when it goes to the background.

use std::fs;
use std::future::pending;
use std::io::{self, Read};
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::sync::Arc;

use crankcase_engine::Stop;
use parking_lot::Mutex;
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, geteuid, pidfd_open};
use tokio::io::Interest;
use tokio::time::{sleep, timeout};

use super::adopted::AdoptedGroup;
use super::any_group::AnyGroup;
use super::error::{ProcessEnd, ProcessError};
use super::escaped::Unfound;
use super::group::ProcessGroup;
use super::groups::bears_mark;
use super::health_watch::HealthWatch;
use super::identity::{Stat, has_overwritten_environment, program_name};
use super::ledger::wire::{Entry, Identity};
use super::ledger::{Ledger, LedgerError, Record};
use super::probe::PAUSE;
use super::ready_file::ReadyFile;
use super::reloader::Reloader;
use super::spawn::{blocking, not_recorded, supervise};
use super::status::{Containment, ProcessHandle};
use super::{Process, ended_by_itself};
use crate::files::open_file;
use crate::readiness::register;

/// How much of a pid file is read, in bytes. Some programs write more lines after the pid.
const MAX_READ: u64 = 32;

impl Process {
    /// Waits until a program with a pid file has left its daemon, and supervises the daemon from
    /// then on. `before` is the pid file from before the program was spawned.
    ///
    /// # Errors
    ///
    /// When the command fails, or there is no daemon of it in time or before `stop` is told; no
    /// process is left.
    pub(super) async fn until_daemon(
        self,
        before: Option<ReadyFile>,
        ledger: Option<&Ledger>,
        stop: Option<&Stop>,
    ) -> Result<Self, ProcessError> {
        let Some(path) = self.config.pid_file.clone() else { return Ok(self) };
        let AnyGroup::Own(group) = &self.group else { return Ok(self) };
        let Some(entry) = group.record().and_then(Record::entry).cloned() else { return Ok(self) };
        let unfound = Unfound::of(entry.clone(), stop);
        let search = Search { entry, path, before };
        let (signal, grace) = (self.config.stop_signal, self.config.grace);
        let (within, missing) = (self.config.ready_timeout, Mutex::new(String::new()));
        let left = tokio::select! {
            biased;
            () = told_to_stop(stop) => {
                // What does not end is killed.
                let _asked = group.ask_to_end(signal, grace).await;
                Err("it was told to stop".to_owned())
            }
            left = timeout(within, search.left(group, &missing)) => {
                left.map_err(|_| format!("after {within:?}, {}", missing.lock()))
            }
        };
        let left = match left {
            Ok(left) => left.map_err(|source| supervise(&self.config.name, source))?,
            Err(reason) => Left::Nothing(reason),
        };
        match left {
            Left::Daemon(identity, leader) => {
                let process = Some(identity);
                let entry = Entry { process, awaits_daemon: false, ..search.entry };
                self.follow((entry, leader), unfound, ledger, stop).await
            }
            Left::Nothing(reason) => {
                let (name, ended) = self.ended_without_daemon(unfound).await;
                let last_words = ended.ok().and_then(|(_, end)| end.last_words);
                Err(ProcessError::NoDaemon { name, reason, last_words })
            }
            Left::Failure => {
                // It may have started a daemon before it failed.
                let (name, ended) = self.ended_without_daemon(unfound).await;
                let (status, end) = ended.map_err(|source| supervise(&name, source))?;
                Err(ended_by_itself(name, status, ProcessEnd { is_early: true, ..end }))
            }
        }
    }

    /// Supervises a daemon in place of the command that has left it. The record is the daemon's
    /// from then on.
    async fn follow(
        mut self,
        (entry, leader): (Entry, OwnedFd),
        unfound: Unfound,
        ledger: Option<&Ledger>,
        stop: Option<&Stop>,
    ) -> Result<Self, ProcessError> {
        let name = self.config.name.clone();
        let leader = register(Arc::new(leader), Interest::READABLE)
            .map_err(|source| supervise(&name, source))?;
        if let AnyGroup::Own(group) = &mut self.group
            && let Some(record) = group.take_record()
        {
            record.keep();
        }
        let mut daemon = AdoptedGroup::of_daemon(entry.clone(), leader);
        unfound.found();
        stop.into_iter().for_each(|stop| daemon.hold(stop.linger()));
        let path = entry.path.clone();
        let failed = |err| not_recorded(&name, LedgerError::new("write the record", &path, err));
        blocking(&name, move || entry.replace()).await?.map_err(failed)?;
        let (pid, leader) = (daemon.pid(), daemon.leader());
        let contained_by = Containment::of(daemon.record());
        let command = std::mem::replace(&mut self.group, AnyGroup::Adopted(Box::new(daemon)));
        if let AnyGroup::Own(command) = command {
            // The daemon may be in the group of the command, which is left as it is.
            command.release().await.map_err(|source| supervise(&name, source))?;
        }
        let reloader = Reloader::new(&self.config, Some(leader), ledger);
        let (health, view) = HealthWatch::new(&self.config, pid, ledger);
        let told_by = (Arc::clone(self.handle.output()), self.handle.notified());
        let handle = ProcessHandle::new(pid, told_by, view, reloader);
        self.handle = handle.contained_by(contained_by);
        self.health = health;
        tracing::debug!(process = name, pid, "process has left its daemon");
        Ok(self)
    }
}

/// What a program has left.
enum Left {
    Daemon(Identity, OwnedFd),
    /// The command has failed.
    Failure,
    /// It has left no daemon, for this reason.
    Nothing(String),
}

/// What is known of the daemon that a program is to leave.
#[derive(Clone)]
struct Search {
    /// The record of the program.
    entry: Entry,
    /// The pid file.
    path: PathBuf,
    /// The pid file from before the program was spawned.
    before: Option<ReadyFile>,
}

/// The result of a look for the daemon.
enum Look {
    Daemon(Identity, OwnedFd),
    /// The daemon may still come; this is missing.
    Missing(String),
    /// The pid file names a process of somebody else.
    Stranger(String),
}

impl Search {
    /// Waits until the command has ended, and then until it has left a daemon; `missing` says what
    /// was there instead. Cancel safe.
    async fn left(&self, group: &ProcessGroup, missing: &Mutex<String>) -> io::Result<Left> {
        *missing.lock() = "its command has not ended".to_owned();
        group.leader_ended().await?;
        if !group.has_ended_well() {
            return Ok(Left::Failure);
        }
        let mut seen = None;
        loop {
            let search = self.clone();
            let looked = tokio::task::spawn_blocking(move || search.look()).await;
            let text = match looked.unwrap_or_else(|err| Err(io::Error::other(err))) {
                Ok(Look::Daemon(identity, leader)) if seen == Some(identity) => {
                    return Ok(Left::Daemon(identity, leader));
                }
                // A daemon is looked for twice: it may fork once more and end, or leave its group.
                Ok(Look::Daemon(identity, _)) => {
                    seen = Some(identity);
                    format!("{:?} names process {} only now", self.path, identity.id)
                }
                Ok(Look::Stranger(reason)) if *missing.lock() == reason => {
                    return Ok(Left::Nothing(reason));
                }
                // So is a stranger: the file may be half written.
                Ok(Look::Stranger(text) | Look::Missing(text)) => text,
                Err(err) => format!("cannot look for the daemon of {:?}: {err}", self.path),
            };
            *missing.lock() = text;
            sleep(PAUSE).await;
        }
    }

    /// Looks for the daemon once. Blocks for the disk and for `/proc`.
    fn look(&self) -> io::Result<Look> {
        let path = &self.path;
        let missing = |text: String| Ok(Look::Missing(text));
        match ReadyFile::look(path)? {
            None => return missing(format!("there is no {path:?}")),
            found if found == self.before => {
                return missing(format!("it has not written {path:?} since it was started"));
            }
            Some(_) => {}
        }
        let Some((id, owner)) = self.read_pid()? else {
            return missing(format!("{path:?} does not begin with a pid"));
        };
        let pid = id.as_raw_pid();
        // Opened before it is identified: later, the kernel may give the pid to another process.
        let opened = match pidfd_open(id, PidfdFlags::NONBLOCK) {
            Err(Errno::SRCH) => None,
            opened => Some(opened?),
        };
        let found = Stat::read(pid)?.filter(|found| !found.is_dead);
        let (Some(opened), Some(Stat { group, start_time, .. })) = (opened, found) else {
            return missing(format!("{path:?} names process {pid}, which does not run"));
        };
        let is_later = self.entry.process.is_some_and(|command| start_time >= command.start_time);
        match self.has_started(pid, owner)? {
            Some(true) if is_later => {
                let group = (group != pid).then_some(group);
                Ok(Look::Daemon(Identity { id: pid, start_time, group }, opened))
            }
            None if is_later => missing(format!("process {pid} of {path:?} is being executed")),
            _ => {
                let program = program_name(pid).unwrap_or_default();
                let stranger = format!("{program:?} (pid {pid}), which it has not started");
                Ok(Look::Stranger(format!("{path:?} names {stranger}")))
            }
        }
    }

    /// Returns whether the program has started a process that a file of `owner` names: the process
    /// has the mark. One that has overwritten its mark has to be in the control group of this
    /// agent, and `owner` must be able to start it. `None` if it is being executed.
    fn has_started(&self, pid: i32, owner: u32) -> io::Result<Option<bool>> {
        let is_marked = bears_mark(&self.entry, pid);
        if is_marked != Some(false) || !has_overwritten_environment(pid) {
            return Ok(is_marked);
        }
        let user = fs::metadata(format!("/proc/{pid}"))?.uid();
        let may_start = may_start(owner, geteuid().as_raw(), user);
        Ok(Some(may_start && is_in_own_control_group(pid)))
    }

    /// Returns the pid on the first line of the pid file, if there is one, and who owns the file.
    fn read_pid(&self) -> io::Result<Option<(Pid, u32)>> {
        let mut bytes = Vec::new();
        let (file, _) = open_file(&self.path)?;
        let owner = file.metadata()?.uid();
        file.take(MAX_READ).read_to_end(&mut bytes)?;
        let text = String::from_utf8_lossy(&bytes);
        let pid = text.lines().next().and_then(|line| line.trim().parse::<u32>().ok());
        let pid = pid.and_then(|pid| Pid::from_raw(i32::try_from(pid).ok()?));
        Ok(pid.map(|pid| (pid, owner)))
    }
}

/// Returns whether the owner of a pid file could have started a process of `user`. Anybody else
/// could have this agent end the processes of others.
fn may_start(owner: u32, agent: u32, user: u32) -> bool {
    [0, agent, user].contains(&owner)
}

/// Returns whether a process is in the control group of this agent. A service manager starts its
/// programs in others. Blocks for `/proc`.
fn is_in_own_control_group(pid: i32) -> bool {
    let read = |whose: &str| fs::read(format!("/proc/{whose}/cgroup")).ok();
    read("self") == read(&pid.to_string())
}

/// Waits until `stop` is told; for ever if there is none.
async fn told_to_stop(stop: Option<&Stop>) {
    match stop {
        Some(stop) => stop.wait().await,
        None => pending().await,
    }
}

#[cfg(test)]
mod tests {
    use super::may_start;

    #[test]
    fn a_pid_file_names_no_process_of_another_user_unless_root_or_the_agent_owns_it() {
        let (root, agent, other, user) = (0, 1000, 1001, 1002);

        assert!([root, agent, user].iter().all(|owner| may_start(*owner, agent, user)));
        assert!(!may_start(other, agent, user));
        assert!(!may_start(other, root, root));
    }
}
