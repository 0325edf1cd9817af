//! State folders that were deleted while a process holds them.

use std::ffi::{OsStr, OsString};
use std::fs::{self, DirEntry, File, TryLockError};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use rustix::process::geteuid;

/// The system's list of processes.
const PROC: &str = "/proc";

/// What the system adds to the path of an open folder that was deleted.
const DELETED: &str = " (deleted)";

/// Returns the process that holds the folder which was at a path before it was deleted, if there is one.
///
/// Nothing at the path tells of it any more. But the process has the folder open, and the system says which path that
/// had. Only processes of this user or of root count, and those that see the same files: in a container the path leads
/// elsewhere. A process that may not be looked at is not found.
pub(super) fn holder(path: &Path) -> Option<u32> {
    let deleted = deleted(path)?;
    let files = files_of(Path::new("/proc/self"));
    let mut processes = fs::read_dir(PROC).ok()?.flatten();
    processes.find_map(|process| {
        let pid = process.file_name().to_str()?.parse().ok()?;
        let user = process.metadata().ok()?.uid();
        let is_trusted = user == geteuid().as_raw() || user == 0;
        let sees_the_same = files_of(&process.path()) == files;
        let mut open = fs::read_dir(process.path().join("fd")).ok()?.flatten();
        let holds = is_trusted && sees_the_same && open.any(|open| is_held(&open, &deleted));
        holds.then_some(pid)
    })
}

/// Returns what the system calls the folder that was at a path and is deleted.
fn deleted(path: &Path) -> Option<OsString> {
    let path = std::path::absolute(path).ok()?;
    let (folder, name) = (path.parent()?, path.file_name()?);
    let folder = folder.canonicalize().unwrap_or_else(|_| folder.to_owned());
    let mut deleted = folder.join(name).into_os_string();
    deleted.push(DELETED);
    Some(deleted)
}

/// Returns what tells which files a process sees.
fn files_of(process: &Path) -> Option<OsString> {
    fs::read_link(process.join("ns/mnt")).ok().map(Into::into)
}

/// Returns whether a process has a deleted folder open, and somebody has its lock.
fn is_held(open: &DirEntry, deleted: &OsStr) -> bool {
    let is_it = fs::read_link(open.path()).is_ok_and(|path| path == *deleted);
    is_it
        && File::open(open.path())
            .is_ok_and(|folder| matches!(folder.try_lock(), Err(TryLockError::WouldBlock)))
}
