//! The processes of a program that have left its group.

use std::cell::Cell;
use std::fmt;
use std::fs::read_link;
use std::io;
use std::os::fd::OwnedFd;
use std::time::Duration;

use crankcase_engine::Stop;
use crankcase_engine::owner::Linger;
use rustix::process::getpid;
use tokio::runtime::Handle;
use tokio::time::{Instant, sleep};

use super::adopted::are_gone;
use super::group::GONE;
use super::groups::{bears_mark, kill_process};
use super::identity::{Stat, has_overwritten_environment, program_name};
use super::ledger::wire::Entry;
use super::members::open;
use super::probe::PAUSE;

/// How long a process that is just being executed is given to show its mark.
const EXECUTION: Duration = Duration::from_millis(200);

/// A process that a program has started, and that has left the program's group: it runs on.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Escaped {
    /// Its pid.
    pub pid: i32,
    /// The name of its program. The kernel keeps 15 bytes of it.
    pub program: String,
}

impl fmt::Display for Escaped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} (pid {})", self.program, self.pid)
    }
}

/// The processes of a program that have left its group, while its daemon is looked for. Dropping it
/// kills them.
pub(super) struct Unfound {
    /// The record of the program; none once the daemon is found.
    entry: Option<Entry>,
    /// It keeps the worker from counting as ended.
    hold: Option<Linger>,
}

impl Unfound {
    /// Returns those of a program that runs for the worker that has this `stop`.
    pub(super) fn of(entry: Entry, stop: Option<&Stop>) -> Self {
        Self { entry: Some(entry), hold: stop.map(Stop::linger) }
    }

    /// Kills them, and waits until they are gone. Cancel safe: dropping it does the same.
    pub(super) async fn kill(mut self) {
        if let Some(entry) = &self.entry {
            kill_escaped(entry).await;
        }
        self.entry = None;
    }

    /// Leaves them running: one of them is the daemon.
    pub(super) fn found(mut self) {
        self.entry = None;
    }
}

impl Drop for Unfound {
    fn drop(&mut self) {
        let (entry, hold) = (self.entry.take(), self.hold.take());
        // Only the end of the worker waits for this task.
        if let Some(entry) = entry
            && let Ok(runtime) = Handle::try_current()
        {
            let killed = async move {
                kill_escaped(&entry).await;
                drop(hold);
            };
            drop(runtime.spawn(killed));
        }
    }
}

/// Returns the processes that a recorded program, which has ended and is not reaped, has started
/// and that have left its group, the oldest first. It returns none if they cannot be looked for.
pub(super) async fn escaped(entry: Entry) -> Vec<Escaped> {
    let name = entry.name.clone();
    let found = tokio::task::spawn_blocking(move || find(&entry)).await;
    found.unwrap_or_else(|err| Err(io::Error::other(err))).unwrap_or_else(|err| {
        let error: &dyn std::error::Error = &err;
        tracing::warn!(process = name, error, "cannot look for the processes that it has started");
        Vec::new()
    })
}

/// Looks for the processes by their mark. A daemon such as nginx overwrites its mark to show a
/// title of its own; it is known by the name of its program. Blocks for `/proc`.
fn find(entry: &Entry) -> io::Result<Vec<Escaped>> {
    let program = entry.process.and_then(|leader| program_name(leader.id));
    let is_own = |id: i32| {
        let is_namesake = || program.is_some() && program == program_name(id);
        is_marked(entry, id) || (has_overwritten_environment(id) && is_namesake())
    };
    let named = |stat: Stat| Some(Escaped { pid: stat.id, program: program_name(stat.id)? });
    Ok(outside(entry, is_own)?.into_iter().filter_map(named).collect())
}

/// Kills the processes with the mark of a recorded program that have left its group, and waits
/// until they are gone, at most [`GONE`] or a little more.
pub(super) async fn kill_escaped(entry: &Entry) {
    let (name, began) = (&entry.name, Instant::now());
    loop {
        let owned = entry.clone();
        let killed = tokio::task::spawn_blocking(move || kill(&owned)).await;
        match killed.unwrap_or_else(|err| Err(io::Error::other(err))) {
            Ok(Killed { dying, is_unsure }) if dying.is_empty() => {
                if !is_unsure || began.elapsed() > EXECUTION {
                    return;
                }
                sleep(PAUSE).await;
            }
            Ok(Killed { dying, .. }) => {
                if !are_gone(dying).await || began.elapsed() > GONE {
                    tracing::warn!(process = name, "killed processes are not gone yet");
                    return;
                }
                // Looks once more: a process may have started another one before it was killed.
            }
            Err(err) => {
                let error: &dyn std::error::Error = &err;
                tracing::warn!(process = name, error, "cannot kill what it has started");
                return;
            }
        }
    }
}

/// What a look for such processes has found.
struct Killed {
    dying: Vec<OwnedFd>,
    /// Whether a process has no environment yet, and may show the mark when it has been executed.
    is_unsure: bool,
}

/// Kills the processes. Blocks for `/proc`.
fn kill(entry: &Entry) -> io::Result<Killed> {
    let (mut dying, is_unsure) = (Vec::new(), Cell::new(false));
    let is_own = |id: i32| {
        let is_marked = bears_mark(entry, id);
        if is_marked.is_none() && !is_of_kernel(id) {
            is_unsure.set(true);
        }
        is_marked == Some(true)
    };
    for stat in outside(entry, is_own)? {
        if let Some(process) = open(&stat)? {
            kill_process(&process)?;
            dying.push(process);
        }
    }
    Ok(Killed { dying, is_unsure: is_unsure.get() })
}

/// Returns whether a process is a thread of the kernel, which has no program and no environment.
fn is_of_kernel(id: i32) -> bool {
    let program = read_link(format!("/proc/{id}/exe"));
    program.is_err_and(|err| err.kind() == io::ErrorKind::NotFound)
}

/// Returns the live processes other than this one that are outside of the group of a recorded
/// program, were started after the program, and are its own, the oldest first. Blocks for `/proc`.
fn outside(entry: &Entry, is_own: impl Fn(i32) -> bool) -> io::Result<Vec<Stat>> {
    let Some(leader) = entry.process else { return Ok(Vec::new()) };
    let (mut running, own) = (Stat::read_all()?, getpid().as_raw_pid());
    running.retain(|stat| {
        let is_later = stat.start_time >= leader.start_time;
        let is_outside = stat.group != leader.group() && stat.id != own;
        is_later && is_outside && !stat.is_dead && is_own(stat.id)
    });
    running.sort_by_key(|stat| (stat.start_time, stat.id));
    Ok(running)
}

fn is_marked(entry: &Entry, id: i32) -> bool {
    bears_mark(entry, id) == Some(true)
}

#[cfg(test)]
mod tests {
    use std::error::Error;
    use std::os::unix::process::CommandExt;
    use std::path::PathBuf;
    use std::process::Command;

    use super::{Entry, Stat, Unfound, are_gone, kill, open};
    use crate::process::ledger::MARK;
    use crate::process::ledger::wire::Identity;

    fn entry(token: String) -> Entry {
        Entry {
            name: "it".to_owned(),
            boot_id: String::new(),
            token,
            process: Some(Identity { id: i32::MAX, start_time: 0, group: None }),
            adoption: None,
            awaits_daemon: false,
            cgroup: None,
            path: PathBuf::new(),
        }
    }

    #[test]
    fn a_process_without_an_environment_may_be_one_that_is_being_executed()
    -> Result<(), Box<dyn Error>> {
        let mut bare = Command::new("/bin/sleep").arg("1000").env_clear().spawn()?;

        let found = kill(&entry("escaped-tests-2".to_owned()));

        bare.kill()?;
        bare.wait()?;
        let found = found?;
        assert!(found.dying.is_empty() && found.is_unsure);
        Ok(())
    }

    #[tokio::test]
    async fn what_has_left_the_group_is_killed_when_nobody_looks_for_the_daemon_any_more()
    -> Result<(), Box<dyn Error>> {
        let token = "escaped-tests".to_owned();
        let mut command = Command::new("sleep");
        let mut marked = command.arg("1000").env(MARK, &token).process_group(0).spawn()?;
        let entry = entry(token);
        let stat = Stat::read(i32::try_from(marked.id())?)?.ok_or("no such process")?;
        let process = open(&stat)?.ok_or("it is gone")?;

        drop(Unfound::of(entry, None));
        let is_gone = are_gone(vec![process]).await;

        marked.kill()?;
        marked.wait()?;
        assert!(is_gone);
        Ok(())
    }
}
