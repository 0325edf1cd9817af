//! A process group that an earlier agent has started, or that a daemon of this agent leads.
//!
//! Invariants:
//! 1. Another process reaps the leader, and then the kernel may give its pid to a new process. So
//!    processes are signalled by descriptors that were opened before they were identified.
//! 2. The record is removed only after the group was killed and is gone. It stays when the group is
//!    left.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

use crankcase_engine::owner::Linger;
use rustix::process::Signal;
use tokio::io::Interest;
use tokio::runtime::Handle;
use tokio::time::{Instant, timeout, timeout_at};

use super::cgroup::{Cgroup, end_all};
use super::group::GONE;
use super::groups::{
    Groups, kill_group, kill_process, names_a_stranger, refuse_own, signal_process,
};
use super::identity::Stat;
use super::ledger::Record;
use super::ledger::wire::Entry;
use super::leftovers::Fate;
use super::members::{gone, members};
use super::spool::Spool;
use super::stop_signal::StopSignal;
use super::survivor::{Survivor, find};
use crate::readiness::{ReadyFd, register};

/// How the groups of a record are looked for among the processes that run.
type Find = fn(&Entry, &[Stat]) -> io::Result<Groups>;

/// A process group whose leader is no child of this process. Dropping it kills the group.
#[derive(Debug)]
pub(super) struct AdoptedGroup {
    id: i32,
    leader: ReadyFd,
    record: Option<Record>,
    /// They keep the worker from counting as ended.
    holds: Vec<Linger>,
}

/// A survivor that was looked for once more.
pub(super) enum TakenUp {
    Runs(AdoptedGroup),
    /// It has ended or cannot be found. Only its record is left.
    IsGone(Record),
}

impl AdoptedGroup {
    /// Looks for a survivor once more, and takes it up if it runs.
    pub(super) async fn take_up(survivor: &Survivor) -> io::Result<TakenUp> {
        let entry = survivor.entry.clone();
        let record = || Record::of(survivor.entry.clone());
        let Some(leader) = blocking(move || find(&entry)).await? else {
            return Ok(TakenUp::IsGone(record()));
        };
        let leader = register(Arc::new(leader), Interest::READABLE)?;
        let (id, record, holds) = (survivor.pid(), Some(record()), Vec::new());
        Ok(TakenUp::Runs(Self { id, leader, record, holds }))
    }

    /// Takes up a daemon that a program of this agent has left. The record names the daemon.
    pub(super) fn of_daemon(entry: Entry, leader: ReadyFd) -> Self {
        let id = entry.process.map_or(0, |process| process.id);
        Self { id, leader, record: Some(Record::of(entry)), holds: Vec::new() }
    }

    /// Returns the pid of the leader. The group has it as its id, unless the leader is a daemon.
    pub(super) fn pid(&self) -> i32 {
        self.id
    }

    /// Returns the descriptor by which the leader is signalled.
    pub(super) fn leader(&self) -> Arc<OwnedFd> {
        Arc::clone(self.leader.get_ref())
    }

    /// Keeps a worker from counting as ended until the group is gone.
    pub(super) fn hold(&mut self, linger: Linger) {
        self.holds.push(linger);
    }

    pub(super) fn record(&self) -> Option<&Record> {
        self.record.as_ref()
    }

    /// Returns the files that the process writes to.
    pub(super) fn spool(&self) -> Option<Spool> {
        self.record.as_ref()?.spool()
    }

    /// Waits until the leader has ended. Cancel safe.
    pub(super) async fn leader_ended(&self) -> io::Result<()> {
        self.leader.readable().await.map(drop)
    }

    /// Asks every process in the group to end, and waits for the leader; returns whether it has
    /// ended within `grace`. Cancel safe: the group was asked, or will be.
    pub(super) async fn ask_to_end(&self, signal: StopSignal, grace: Duration) -> io::Result<bool> {
        if let Some(entry) = self.entry().cloned() {
            blocking(move || signal_all(&entry, signal.number())).await?;
        }
        match timeout(grace, self.leader_ended()).await {
            Ok(ended) => ended.map(|()| true),
            Err(_) => Ok(false),
        }
    }

    /// Kills the group, and waits until it is gone; returns how many processes other than the
    /// leader it had. Cancel safe: dropping it does the same.
    pub(super) async fn reap(&mut self) -> io::Result<usize> {
        let Some(entry) = self.entry().cloned() else { return Ok(0) };
        let (count, is_gone) = end(entry, Groups::of_watched).await?;
        if let Some(record) = self.record.take() {
            settle(record, is_gone);
        }
        Ok(count)
    }

    /// Leaves the group running, and on record for the next agent.
    pub(super) fn leave(mut self) {
        if let Some(record) = self.record.take() {
            record.keep();
        }
    }

    fn entry(&self) -> Option<&Entry> {
        self.record.as_ref().and_then(Record::entry)
    }
}

impl Drop for AdoptedGroup {
    fn drop(&mut self) {
        let Some(record) = self.record.take() else { return };
        let dying = Dying { record: Some(record), _holds: std::mem::take(&mut self.holds) };
        // Only the end of the worker waits for this task. Without a runtime the group stays on
        // record.
        if let Ok(runtime) = Handle::try_current() {
            drop(runtime.spawn(dying.gone()));
        }
    }
}

/// A group that is being killed because it was dropped.
struct Dying {
    record: Option<Record>,
    _holds: Vec<Linger>,
}

impl Dying {
    async fn gone(mut self) {
        let Some(entry) = self.record.as_ref().and_then(Record::entry).cloned() else { return };
        match end(entry, Groups::of_watched).await {
            Ok((_, is_gone)) => {
                if let Some(record) = self.record.take() {
                    settle(record, is_gone);
                }
            }
            Err(err) => {
                let error: &dyn std::error::Error = &err;
                tracing::warn!(error, "cannot kill an adopted process");
            }
        }
    }
}

/// A group stays on record if nobody waited until it was gone: it may still live.
impl Drop for Dying {
    fn drop(&mut self) {
        if let Some(record) = self.record.take() {
            record.keep();
        }
    }
}

impl Survivor {
    /// Ends the process: asks it to end as its config said, kills the rest of its group when the
    /// leader has ended or after its grace period, and removes its record.
    ///
    /// # Errors
    ///
    /// When it cannot be found, asked or killed.
    ///
    /// # Panics
    ///
    /// Panics outside of a tokio runtime with its I/O and time drivers enabled.
    ///
    /// # Cancel safety
    ///
    /// When it is dropped, the process is killed, or stays on record.
    pub async fn end(self) -> io::Result<()> {
        self.end_or_clear().await.map(drop)
    }

    /// Ends the process as [`end`](Self::end) does. Returns [`Fate::Ended`] if it was running, and
    /// [`Fate::Gone`] if it had ended before.
    ///
    /// # Errors
    ///
    /// As [`end`](Self::end).
    ///
    /// # Panics
    ///
    /// As [`end`](Self::end).
    ///
    /// # Cancel safety
    ///
    /// As [`end`](Self::end).
    pub async fn end_or_clear(self) -> io::Result<Fate> {
        let (signal, grace) = self.ending();
        match AdoptedGroup::take_up(&self).await? {
            TakenUp::Runs(mut group) => {
                group.ask_to_end(signal, grace).await?;
                group.reap().await.map(|_| Fate::Ended)
            }
            TakenUp::IsGone(record) => clear(record).await.map(|()| Fate::Gone),
        }
    }
}

/// Kills the rest of the group of a leader that is gone, and forgets the record.
pub(super) async fn clear(record: Record) -> io::Result<()> {
    let mut cleared = Dying { record: Some(record), _holds: Vec::new() };
    let Some(entry) = cleared.record.as_ref().and_then(Record::entry).cloned() else {
        return Ok(());
    };
    let (_, is_gone) = end(entry, unless_stranger).await?;
    if let Some(record) = cleared.record.take() {
        settle(record, is_gone);
    }
    Ok(())
}

/// Forgets the record of a process that is gone, and keeps any other.
fn settle(record: Record, is_gone: bool) {
    if is_gone {
        drop(record);
    } else {
        let process = record.entry().map(|entry| entry.name.clone());
        tracing::warn!(process, "killed processes are not gone yet");
        record.keep();
    }
}

/// Waits until killed processes are gone; returns whether they are after [`GONE`].
pub(super) async fn are_gone(dying: Vec<OwnedFd>) -> bool {
    let deadline = Instant::now() + GONE;
    for process in dying {
        if timeout_at(deadline, gone(process)).await.is_err() {
            return false;
        }
    }
    true
}

/// Sends a signal to every process of a group, and wakes those processes that are stopped. Blocks
/// for `/proc`.
fn signal_all(entry: &Entry, signal: Signal) -> io::Result<()> {
    let running = Stat::read_all()?;
    let Groups { own, leader, .. } = Groups::of(entry, &running)?;
    let id = entry.process.map(|process| process.id);
    let has_moved = !running.iter().any(|it| Some(it.id) == id && own.contains(&it.group));
    let mut asked = Vec::new();
    for group in own {
        refuse_own(group)?;
        asked.extend(members(group, &running)?);
    }
    if has_moved {
        // The leader is in none of these groups.
        asked.extend(leader);
    }
    for process in &asked {
        for signal in [signal, Signal::CONT] {
            signal_process(process, signal)?;
        }
    }
    Ok(())
}

/// Returns the groups of a record, unless its pid is another process's by now. Blocks for `/proc`.
fn unless_stranger(entry: &Entry, running: &[Stat]) -> io::Result<Groups> {
    match names_a_stranger(entry) {
        true => Ok(Groups::none()),
        false => Groups::of(entry, running),
    }
}

/// Kills every process of the groups that `find` returns, and of the cgroup, and waits until they
/// are gone; returns how many other than the leader there were, and whether they are gone after
/// [`GONE`].
async fn end(entry: Entry, find: Find) -> io::Result<(usize, bool)> {
    let cgroup = entry.cgroup.clone();
    let (count, dying) = blocking(move || kill_all(&entry, find)).await?;
    let ended = timeout(GONE, end_all(cgroup.as_ref())).await;
    let is_gone = are_gone(dying).await && matches!(ended, Ok(Ok(())));
    Ok((count, is_gone))
}

/// Kills every process of the groups that `find` returns, and of the cgroup; returns how many
/// processes other than the leader there were, and the descriptors of those of the groups. Blocks
/// for `/proc`.
fn kill_all(entry: &Entry, find: Find) -> io::Result<(usize, Vec<OwnedFd>)> {
    let id = entry.process.map_or(0, |process| process.id);
    let inside = entry.cgroup.as_ref().map_or(0, |cgroup| cgroup.others(id));
    let (count, dying) = kill_groups(entry, find)?;
    entry.cgroup.as_ref().map_or(Ok(false), Cgroup::kill)?;
    Ok((count.max(inside), dying))
}

/// Kills every process of the groups that `find` returns; returns how many processes other than the
/// leader there were, and the descriptors of all that were killed. Blocks for `/proc`.
fn kill_groups(entry: &Entry, find: Find) -> io::Result<(usize, Vec<OwnedFd>)> {
    let running = Stat::read_all()?;
    let Groups { own, leader, .. } = find(entry, &running)?;
    let id = entry.process.map(|process| process.id);
    let is_other = |stat: &&Stat| own.contains(&stat.group) && Some(stat.id) != id && !stat.is_dead;
    let count = running.iter().filter(is_other).count();
    let mut dying = Vec::new();
    for group in &own {
        kill_group(*group, &running, &mut dying)?;
    }
    if let Some(leader) = leader {
        kill_process(&leader)?;
        dying.push(leader);
    }
    Ok((count, dying))
}

/// Runs `work`, which blocks for `/proc`, on a thread where it holds up no other task.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> io::Result<T> {
    let done = tokio::task::spawn_blocking(work).await;
    done.unwrap_or_else(|err| Err(io::Error::other(err)))
}
