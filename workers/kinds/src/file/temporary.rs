//! Writing a file under a temporary name in its folder.
//!
//! Invariants:
//! 1. Each target has one usual temporary name, so that what a killed agent has left is found and
//!    removed by the next write to the same target. In a folder that others write to, too, it may be
//!    there to stay; a name that nobody can guess is used then, and what a killed agent leaves under
//!    such a name stays.
//! 2. Who writes, renames or removes the temporary file holds its lock, and has then seen that the
//!    name still stands for the file that it has locked. The kernel frees the lock of a dead agent.
use std::fs::File;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, FlockOperation, Mode, OFlags};
use rustix::io::Errno;
use sha2::{Digest as _, Sha256};

use crate::file::config::EntryPath;
use crate::file::error::FileError;

/// The longest name, in bytes, that the temporary name repeats in full.
const REPEATED: usize = 200;

/// How often to begin anew because another process was at the same file.
const ATTEMPTS: usize = 3;

/// A file that is not yet under its own name; dropping it removes it.
#[derive(Debug)]
pub(super) struct Temporary<'a> {
    folder: &'a OwnedFd,
    name: String,
    path: PathBuf,
    file: File,
    is_renamed: bool,
}

impl<'a> Temporary<'a> {
    /// Creates the file, for the agent's user alone, after removing what a dead agent has left.
    pub(super) fn create(folder: &'a OwnedFd, target: &EntryPath) -> Result<Self, FileError> {
        let usual = Self::create_as(usual_name(&target.name), folder, target);
        match usual {
            // Whoever can write to the folder may have put something in the way, even what is ours.
            Err(_) if is_shared(folder) => {
                Self::create_as(secret_name(&target.name), folder, target)
            }
            usual => usual,
        }
    }

    fn create_as(name: String, folder: &'a OwnedFd, target: &EntryPath) -> Result<Self, FileError> {
        let path = target.parent.join(&name);
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW;
        for _ in 0..ATTEMPTS {
            let mode = Mode::RUSR | Mode::WUSR;
            match rustix::fs::openat(folder, &name, flags | OFlags::CLOEXEC, mode) {
                Ok(file) if lock(folder, &name, &file, &path)? => {
                    let file = File::from(file);
                    return Ok(Self { folder, name, path, file, is_renamed: false });
                }
                Ok(_) => {}
                Err(Errno::EXIST) => remove_leftover(folder, &name, &path)?,
                Err(err) => return Err(FileError::io("create", &path)(err)),
            }
        }
        Err(FileError::Busy { path })
    }

    /// Returns the file.
    pub(super) fn file(&mut self) -> &mut File {
        &mut self.file
    }

    /// Gives the file its own name, in place of the one that has it.
    pub(super) fn rename(mut self, target: &EntryPath) -> Result<(), FileError> {
        rustix::fs::renameat(self.folder, &self.name, self.folder, &target.name)
            .map_err(FileError::io("replace", &target.full()))?;
        self.is_renamed = true;
        Ok(())
    }
}

impl Drop for Temporary<'_> {
    fn drop(&mut self) {
        if self.is_renamed {
            return;
        }
        if let Err(err) = rustix::fs::unlinkat(self.folder, &self.name, AtFlags::empty()) {
            tracing::warn!(path = ?self.path, error = %err, "cannot remove a temporary file");
        }
    }
}

fn usual_name(target: &str) -> String {
    if target.len() <= REPEATED {
        return format!(".{target}.crankcase-tmp");
    }
    format!(".{}.crankcase-tmp", digest(target))
}

fn secret_name(target: &str) -> String {
    format!(".{}.{:016x}.crankcase-tmp", digest(target), rand::random::<u64>())
}

fn digest(target: &str) -> String {
    let digest = Sha256::digest(target);
    digest.iter().take(16).map(|byte| format!("{byte:02x}")).collect()
}

/// Returns whether others than root and the agent's user can write to a folder.
fn is_shared(folder: &OwnedFd) -> bool {
    const OTHERS: u32 = 0o022;
    rustix::fs::fstat(folder).is_ok_and(|found| {
        let is_own = found.st_uid == 0 || found.st_uid == rustix::process::geteuid().as_raw();
        !is_own || found.st_mode & OTHERS != 0
    })
}

/// Locks the file and returns whether `name` still stands for it.
fn lock(folder: &OwnedFd, name: &str, file: &OwnedFd, path: &Path) -> Result<bool, FileError> {
    match rustix::fs::flock(file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => {}
        Err(Errno::WOULDBLOCK) => return Err(FileError::Busy { path: path.to_owned() }),
        Err(err) => return Err(FileError::io("lock", path)(err)),
    }
    let locked = rustix::fs::fstat(file).map_err(FileError::io("look at", path))?;
    match rustix::fs::statat(folder, name, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(named) => Ok((named.st_dev, named.st_ino) == (locked.st_dev, locked.st_ino)),
        Err(Errno::NOENT) => Ok(false),
        Err(err) => Err(FileError::io("look at", path)(err)),
    }
}

fn remove_leftover(folder: &OwnedFd, name: &str, path: &Path) -> Result<(), FileError> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let leftover = match rustix::fs::openat(folder, name, flags, Mode::empty()) {
        Ok(leftover) => leftover,
        Err(Errno::NOENT) => return Ok(()),
        Err(err) => return Err(FileError::io("remove leftover", path)(err)),
    };
    if lock(folder, name, &leftover, path)? {
        rustix::fs::unlinkat(folder, name, AtFlags::empty())
            .map_err(FileError::io("remove leftover", path))?;
    }
    Ok(())
}
