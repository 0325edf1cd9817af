//! The lock of a state folder.

use std::fs::{File, TryLockError};
use std::io::{self, Read, Write};
use std::path::Path;

use rustix::fs::{Mode, OFlags};

use super::{StateDir, StateError};

/// The longest text that is read from the lock's file, in bytes; a process id is shorter.
const MAX_TEXT: u64 = 32;

/// The right to change a state folder, held until it is dropped.
#[derive(Debug)]
#[must_use = "the folder is held only as long as the lock lives"]
pub struct StateLock {
    file: File,
    state_dir: StateDir,
}

impl StateLock {
    /// Returns the folder that is held.
    pub fn state_dir(&self) -> &StateDir {
        &self.state_dir
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
pub(super) fn take(state_dir: &StateDir) -> Result<StateLock, StateError> {
    let path = state_dir.path();
    let failed = |source| StateError::Folder { path: path.to_owned(), source };
    let file = open(&path.join("lock")).map_err(failed)?;
    match file.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => {
            return Err(StateError::Held { path: path.to_owned(), pid: read_pid(&file) });
        }
        Err(TryLockError::Error(source)) => return Err(failed(source)),
    }
    if let Err(error) = write_pid(&file) {
        // It is a help for people only: a full disk must not keep an agent from running.
        tracing::warn!(%error, "cannot write the process id into the file of the lock");
    }
    Ok(StateLock { file, state_dir: state_dir.clone() })
}

fn open(path: &Path) -> io::Result<File> {
    let flags = OFlags::RDWR | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    Ok(rustix::fs::open(path, flags, Mode::RUSR | Mode::WUSR)?.into())
}

fn read_pid(file: &File) -> Option<u32> {
    let mut text = String::new();
    file.take(MAX_TEXT).read_to_string(&mut text).ok()?;
    text.trim().parse().ok()
}

fn write_pid(mut file: &File) -> io::Result<()> {
    file.set_len(0)?;
    writeln!(file, "{}", std::process::id())
}
