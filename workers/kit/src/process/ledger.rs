//! The record of running processes that survives the agent's own death.
//!
//! Invariants:
//! 1. A record stands, with its token and no pid, before its process is spawned with that token in
//!    its environment; so a process is found also if the agent dies before the pid is recorded. A
//!    record of many short runs never has a pid.
//! 2. A record file is replaced by rename and synced, so it is the old or the new one, never a mix.
//! 3. The record of a process that may outlive its agent says from the beginning what another agent
//!    needs to adopt it. The files that it writes to stand as long as the record.

use std::fmt;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crankcase_engine::WithCauses;
use rustix::process::{Pid, getpid};
use thiserror::Error;

use super::cgroup::{Cgroup, Cgroups};
use super::identity::{Stat, boot_id};
use super::spool::Spool;
use crate::files::{FileError, Folder, is_temporary};

pub(super) mod room;
pub(super) mod wire;

/// The variable that marks a process, and all that inherit its environment, as recorded.
pub(super) const MARK: &str = "CRANKCASE_PROCESS";

const EXTENSION: &str = "process";

/// Makes tokens unique within this process.
static NEXT: AtomicU64 = AtomicU64::new(0);

/// A folder that holds one small file for every process that runs.
///
/// Processes that are spawned with it are found after the agent was killed, by
/// [`end_leftovers`](crate::end_leftovers). One agent uses a folder at a time.
#[derive(Debug, Clone)]
pub struct Ledger {
    folder: Arc<Path>,
    keeps_room: bool,
}

/// Why the ledger could not be read or written.
#[derive(Error)]
#[error("cannot {doing} {path:?}")]
pub struct LedgerError {
    doing: &'static str,
    path: PathBuf,
    source: io::Error,
}

impl fmt::Debug for LedgerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&WithCauses(self), f)
    }
}

impl LedgerError {
    pub(super) fn new(doing: &'static str, path: &Path, source: io::Error) -> Self {
        Self { doing, path: path.to_owned(), source }
    }
}

impl Ledger {
    /// Returns the ledger in `folder`, which is made when the first process is recorded.
    pub fn new(folder: &Path) -> Self {
        Self { folder: folder.into(), keeps_room: false }
    }

    /// Returns the same ledger, which keeps the room of its records on the disk, so that a full disk
    /// stops no process from being started again. Default: it gives the room back when a process
    /// ends.
    ///
    /// That takes 8 KiB for each process that runs; it stays for later ones, also those of the next
    /// agent that keeps room in this folder. A file system that never writes in place, such as btrfs,
    /// may want more all the same.
    #[must_use]
    pub fn keeping_room(self) -> Self {
        Self { keeps_room: true, ..self }
    }

    /// Records that a process is about to be spawned. If another agent may adopt it, `adoption` has
    /// the data for that. If it is to leave a daemon, `pid_file` names that. The process gets a cgroup
    /// in `cgroups` if one can be made. Blocks for the disk.
    pub(super) fn begin(
        &self,
        name: &str,
        adoption: Option<wire::Adoption>,
        pid_file: Option<&Path>,
        cgroups: Option<&Cgroups>,
    ) -> Result<Record, LedgerError> {
        Folder::make_own(&self.folder)
            .map_err(|err| LedgerError::new("make the folder", &self.folder, err.into()))?;
        let about = |err| LedgerError::new("identify a process for", &self.folder, err);
        let own = getpid().as_raw_pid();
        let own_start = Stat::read(own).map_err(about)?.map_or(0, |stat| stat.start_time);
        let count = NEXT.fetch_add(1, Ordering::Relaxed);
        let token = format!("{own}-{own_start}-{count}");
        let entry = wire::Entry {
            name: name.to_owned(),
            boot_id: boot_id().map_err(about)?,
            path: self.folder.join(&token).with_extension(EXTENSION),
            cgroup: cgroups.map(|cgroups| cgroups.of(&token)),
            token,
            process: None,
            adoption,
            awaits_daemon: pid_file.is_some(),
        };
        let path = entry.path.clone();
        let mut record = Record { entry: Some(entry) };
        self.reserve(&path)?;
        record.write()?;
        record.make_cgroup();
        // This room is for the pid: once the process is spawned it is too late to find that there
        // is none.
        self.reserve(&path)?;
        Ok(record)
    }

    /// Gets room for the next content of a record, if the ledger keeps room.
    fn reserve(&self, path: &Path) -> Result<(), LedgerError> {
        if !self.keeps_room {
            return Ok(());
        }
        let reserved = room::reserve(path);
        reserved.map_err(|err| LedgerError::new("reserve room for the record", path, err.into()))
    }
}

/// The record of one process; dropping it removes its file.
#[derive(Debug)]
pub(super) struct Record {
    entry: Option<wire::Entry>,
}

impl Record {
    /// Returns the record of a process that an earlier agent has begun.
    pub(super) fn of(entry: wire::Entry) -> Self {
        Self { entry: Some(entry) }
    }

    /// Returns the content of the record, until it is kept.
    pub(super) fn entry(&self) -> Option<&wire::Entry> {
        self.entry.as_ref()
    }

    /// Returns the cgroup of the process, if it has one of its own.
    pub(super) fn cgroup(&self) -> Option<&Cgroup> {
        self.entry.as_ref()?.cgroup.as_ref()
    }

    /// Makes the cgroup of the process. If that fails, the process goes without.
    fn make_cgroup(&mut self) {
        let Some(entry) = &mut self.entry else { return };
        let Some(cgroup) = entry.cgroup.take() else { return };
        match cgroup.make() {
            Ok(()) => entry.cgroup = Some(cgroup),
            Err(err) => {
                let error: &dyn std::error::Error = &err;
                tracing::warn!(process = entry.name, ?cgroup, error, "cannot make a cgroup");
            }
        }
    }

    /// Returns the content that the record gets once the process is ready, if another agent may
    /// adopt it.
    pub(super) fn ready(&self) -> Option<wire::Entry> {
        let mut entry = self.entry.clone()?;
        entry.adoption.as_mut()?.is_ready = true;
        Some(entry)
    }

    /// Returns the files that the process writes to, if another agent may adopt it.
    pub(super) fn spool(&self) -> Option<Spool> {
        let entry = self.entry.as_ref().filter(|entry| entry.adoption.is_some())?;
        Some(Spool::of(&entry.path))
    }

    /// Returns the value of [`MARK`] that the process must be spawned with.
    pub(super) fn token(&self) -> &str {
        self.entry.as_ref().map_or("", |entry| &entry.token)
    }

    /// Makes the files that the process writes to, if another agent may adopt it. Blocks for the
    /// disk.
    pub(super) fn create_files(&self) -> Result<Option<(File, File)>, LedgerError> {
        let (Some(entry), Some(spool)) = (&self.entry, self.spool()) else { return Ok(None) };
        let created = spool.create().map(Some);
        created
            .map_err(|err| LedgerError::new("make the files for output beside", &entry.path, err))
    }

    /// Records the process itself once it is spawned. Blocks for the disk.
    ///
    /// When it fails, the file still stands, without the pid (invariant 1).
    pub(super) fn spawned(mut self, id: Pid) -> (Self, Result<(), LedgerError>) {
        let result = self.identify(id.as_raw_pid()).and_then(|()| self.write());
        (self, result)
    }

    fn identify(&mut self, id: i32) -> Result<(), LedgerError> {
        let Some(entry) = &mut self.entry else { return Ok(()) };
        let stat = Stat::read(id)
            .map_err(|err| LedgerError::new("identify the process for", &entry.path, err))?;
        entry.process = stat.map(|stat| {
            let start_time = stat.start_time;
            wire::Identity { id, start_time, group: None }
        });
        Ok(())
    }

    fn write(&self) -> Result<(), LedgerError> {
        let Some(entry) = &self.entry else { return Ok(()) };
        entry.replace().map_err(|err| LedgerError::new("write the record", &entry.path, err))
    }

    /// Leaves the file where it is.
    pub(super) fn keep(mut self) {
        self.entry = None;
    }
}

impl Drop for Record {
    fn drop(&mut self) {
        let Some(entry) = &self.entry else { return };
        if let Err(err) = forget(entry) {
            let error: &dyn std::error::Error = &err;
            tracing::warn!(path = ?entry.path, error, "cannot remove process record");
        }
    }
}

/// Removes a record, and before it the cgroup of its process and the files that the process wrote
/// to. Blocks for the disk.
pub(super) fn forget(entry: &wire::Entry) -> Result<(), FileError> {
    if let Some(cgroup) = &entry.cgroup
        && let Err(err) = cgroup.remove()
    {
        let error: &dyn std::error::Error = &err;
        tracing::warn!(process = entry.name, ?cgroup, error, "cannot remove a cgroup");
    }
    if entry.adoption.is_some() {
        Spool::of(&entry.path).remove()?;
    }
    room::forget(&entry.path)
}

/// Returns the paths of all records in `folder`, and removes what a death has left unfinished.
pub(super) fn record_paths(folder: &Path) -> Result<Vec<PathBuf>, LedgerError> {
    let failed = |err: FileError| LedgerError::new("read the folder", folder, err.into());
    let opened = match Folder::open_own(folder) {
        Err(err) if err.is_missing() => return Ok(Vec::new()),
        opened => opened.map_err(failed)?,
    };
    let mut paths = Vec::new();
    for name in opened.names(usize::MAX).map_err(failed)? {
        let path = folder.join(&name);
        if is_temporary(&name) {
            opened.remove_leftover(&name).map_err(|err| {
                LedgerError::new("remove the unfinished record", &path, err.into())
            })?;
        } else if path.extension().is_some_and(|extension| extension == EXTENSION) {
            paths.push(path);
        } else if room::is_room(&name) {
            keep_room(&opened, &path.with_extension(EXTENSION)).map_err(failed)?;
        }
    }
    paths.sort();
    Ok(paths)
}

/// Makes spares of the room of a record that was removed, or not written before the agent died.
fn keep_room(folder: &Folder, record: &Path) -> Result<(), FileError> {
    let name = record.file_name().unwrap_or_default();
    match folder.look(name)? {
        Some(_) => Ok(()),
        None => room::forget(record),
    }
}
