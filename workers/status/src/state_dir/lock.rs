//! The lock of a state folder.
//!
//! It is on the folder itself: a user who deletes the files in it, the one with the process id too,
//! lets no second process in. The file is locked as well, because not every network file system has
//! locks on folders.
//!
//! While the lock is held, the folder is held under its path: in this process the path leads to the folder that was
//! locked.

use std::fs::{self, File, TryLockError};
use std::io::{self, Write};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use crankcase_workers::{Folder, HeldFolder};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;

use super::deleted;
use super::dir::StateDir;
use super::error::StateError;
use super::folder::{LOCK, own};

/// The longest text that is read from the lock's file, in bytes; a process id is shorter.
const MAX_TEXT: u64 = 32;

/// The right to change a state folder, held until it is dropped.
#[derive(Debug)]
#[must_use = "the folder is held only as long as the lock lives"]
pub struct StateLock {
    // First, so that the path leads elsewhere before another process can lock the folder.
    _held: HeldFolder,
    file: File,
    locked: File,
    folder: Folder,
    state_dir: StateDir,
}

impl StateDir {
    /// Makes the folder with mode 0700 if it is not there, and takes its lock. A folder of ours that
    /// others can look into gets that mode too, unless it holds other things than the state.
    ///
    /// A symlink is followed only where nobody but root and the user could have put it.
    ///
    /// The lock is given back when it is dropped and when the process ends, however it ends. It is on
    /// the folder, and holds also when the files in it are deleted. It holds when the folder itself is
    /// deleted, as far as this process may see which folders the holder has open. A folder that was
    /// moved away is not seen to be held by a process that makes another in its place. The holder goes
    /// on with the folder that it has locked, and touches no other one.
    ///
    /// # Errors
    ///
    /// When the folder cannot be made, others could change what is in it or have put it there, and
    /// [`StateError::Held`] when another process holds it.
    pub fn lock(&self) -> Result<StateLock, StateError> {
        let path = self.path();
        // A folder that another process uses, or has used, has this file.
        if !path.join(LOCK).exists()
            && let Some(pid) = deleted::holder(path)
        {
            return Err(StateError::Held { path: path.to_owned(), pid: Some(pid) });
        }
        take(self, own(path)?)
    }
}

impl StateLock {
    /// Returns the folder that is held.
    pub fn state_dir(&self) -> &StateDir {
        &self.state_dir
    }

    /// Returns whether the path leads to the folder that is held. It does not if the folder was deleted
    /// or moved away. Blocks for the disk.
    pub fn is_in_place(&self) -> bool {
        match (self.locked.metadata(), fs::metadata(self.state_dir.path())) {
            (Ok(locked), Ok(there)) => (locked.dev(), locked.ino()) == (there.dev(), there.ino()),
            // Another error does not tell where the folder is.
            (_, Err(error)) => error.kind() != io::ErrorKind::NotFound,
            (Err(_), Ok(_)) => true,
        }
    }

    /// Returns the folder itself, wherever its path leads by now.
    pub(crate) fn folder(&self) -> &Folder {
        &self.folder
    }
}

impl Drop for StateLock {
    fn drop(&mut self) {
        // An earlier holder's process id would mislead who comes between lock and writing.
        if let Err(error) = self.file.set_len(0) {
            tracing::debug!(%error, "cannot empty the file of the lock");
        }
    }
}

/// Takes the lock of a folder that exists.
fn take(state_dir: &StateDir, folder: Folder) -> Result<StateLock, StateError> {
    let path = state_dir.path();
    let failed = |source| StateError::Folder { path: path.to_owned(), source };
    let held = || StateError::Held { path: path.to_owned(), pid: read_pid(&folder) };

    let locked = readable(&folder).map_err(failed)?;
    match locked.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => return Err(held()),
        Err(TryLockError::Error(error)) => {
            tracing::debug!(%error, "the file system has no locks on folders");
        }
    }
    let file = open(&folder).map_err(failed)?;
    match file.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => return Err(held()),
        Err(TryLockError::Error(source)) => return Err(failed(source)),
    }
    check(path, &locked).map_err(failed)?;
    if let Err(error) = write_pid(&file) {
        // It is a help for people only: a full disk must not keep an agent from running.
        tracing::warn!(%error, "cannot write the process id into the file of the lock");
    }
    let held = folder.hold_path().map_err(|error| failed(error.into()))?;
    Ok(StateLock { _held: held, file, locked, folder, state_dir: state_dir.clone() })
}

/// Checks that the path still leads to the folder that was locked: one that was deleted meanwhile
/// keeps nobody from making and holding another in its place.
fn check(path: &Path, folder: &File) -> io::Result<()> {
    let (locked, there) = (folder.metadata()?, fs::metadata(path)?);
    if (locked.dev(), locked.ino()) == (there.dev(), there.ino()) {
        return Ok(());
    }
    Err(io::Error::other("it was replaced while it was being locked"))
}

fn readable(folder: &Folder) -> io::Result<File> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    Ok(rustix::fs::openat(folder, ".", flags, Mode::empty())?.into())
}

fn open(folder: &Folder) -> io::Result<File> {
    let flags = OFlags::RDWR | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let mode = Mode::RUSR | Mode::WUSR;
    // The folder is private by now: nobody else can put another file there before it is opened.
    folder.look_for_own_file(LOCK)?;
    let file = match rustix::fs::openat(folder, LOCK, flags, mode) {
        // On a read-only disk an earlier agent has made it, and it can be locked all the same.
        Err(Errno::ROFS) => {
            let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            return Ok(rustix::fs::openat(folder, LOCK, flags, Mode::empty())?.into());
        }
        opened => opened?,
    };
    // The umask may have taken some of it, and an earlier version of the file may have had more.
    rustix::fs::fchmod(&file, mode)?;
    Ok(file.into())
}

fn read_pid(folder: &Folder) -> Option<u32> {
    let text = folder.read(LOCK, MAX_TEXT).ok()?;
    std::str::from_utf8(&text).ok()?.trim().parse().ok()
}

fn write_pid(mut file: &File) -> io::Result<()> {
    file.set_len(0)?;
    writeln!(file, "{}", std::process::id())
}

#[cfg(test)]
mod tests {
    use std::fs::{self, File};
    use std::io;

    use super::check;

    #[test]
    fn a_folder_that_was_replaced_while_it_was_locked_is_not_held() -> io::Result<()> {
        let outer = tempfile::tempdir()?;
        let path = outer.path().join("state");
        fs::create_dir(&path)?;
        let folder = File::open(&path)?;
        check(&path, &folder)?;

        fs::rename(&path, outer.path().join("old"))?;
        fs::create_dir(&path)?;

        assert!(check(&path, &folder).is_err());
        Ok(())
    }
}
