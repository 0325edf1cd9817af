//! The file of a take-over in a state folder.
//!
//! Invariants:
//! 1. The next agent locks the file before it asks, and until it is ready. The kernel gives the lock back when the next
//!    agent ends, however it ends.
//! 2. The file has the pid of the next agent until that is ready, and is empty then: a full disk has no room for a word.
//!    So a pid is written over that of an earlier one, who may have died, and the file is never empty in between.
//! 3. While the file is locked, only the two agents of the take-over hold the state folder. Between the end of the one
//!    and the begin of the other nobody has the lock of the folder.
//! 4. An agent that is to start again, as the same process, writes its own pid into the file.

use std::fs::{File, OpenOptions, TryLockError, metadata, read_to_string};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use anyhow::Context;

use crate::exit::{self, ExitError};

/// The name of the file in the state folder.
const FILE: &str = "take-over";

/// Returns the path of the file in a state folder.
pub(crate) fn path(state: &Path) -> PathBuf {
    state.join(FILE)
}

/// Opens the file, and locks it for this process, which is not ready yet. Blocks.
pub(crate) fn lock(path: &Path) -> anyhow::Result<File> {
    let opened = options().create(true).truncate(false).mode(0o600).open(path);
    let file = opened.with_context(|| format!("cannot open {}", path.display()))?;
    let is_ours = match file.try_lock() {
        Ok(()) => has_name(&file, path),
        Err(TryLockError::WouldBlock) => Ok(false),
        Err(TryLockError::Error(error)) => Err(error),
    };
    if !is_ours.with_context(|| format!("cannot lock {}", path.display()))? {
        let text =
            "another process takes over from the agent, or the agent waits for it to be ready";
        return Err(ExitError::new(exit::CONFLICT, text).into());
    }
    note_pid(&file).with_context(|| format!("cannot write {}", path.display()))?;
    Ok(file)
}

/// Returns how the file is opened: a network file system locks only what may be written.
pub(crate) fn options() -> OpenOptions {
    let mut options = File::options();
    options.read(true).write(true);
    options
}

/// Waits until the next agent holds the file no longer, and returns whether that agent is ready. Blocks.
pub(crate) fn is_ready(file: &File) -> io::Result<bool> {
    file.lock()?;
    Ok(file.metadata()?.len() == 0)
}

/// Returns whether an agent of a take-over keeps the state folder for itself. The caller holds the folder, and is none
/// of these agents.
pub(crate) fn is_locked(state: &Path) -> bool {
    let opened = options().open(path(state));
    opened.is_ok_and(|file| matches!(file.try_lock(), Err(TryLockError::WouldBlock)))
}

/// Returns the pid in the file, if there is one.
pub(crate) fn pid(state: &Path) -> Option<u32> {
    read_to_string(path(state)).ok()?.trim().parse().ok()
}

/// Returns whether a file still has its name. It has none if another process was ready meanwhile.
fn has_name(file: &File, path: &Path) -> io::Result<bool> {
    let (own, there) = (file.metadata()?, metadata(path));
    Ok(there.is_ok_and(|there| (there.dev(), there.ino()) == (own.dev(), own.ino())))
}

/// Writes the pid of this process over another one (invariant 2).
pub(crate) fn note_pid(file: &File) -> io::Result<()> {
    let line = format!("{}\n", std::process::id());
    file.write_all_at(line.as_bytes(), 0)?;
    file.set_len(line.len() as u64)
}

#[cfg(test)]
mod tests {
    use std::fs::{read_to_string, remove_file, write};

    use super::{has_name, lock, path};

    #[test]
    fn a_file_is_locked_once_and_has_the_pid_of_the_next_agent_alone() -> anyhow::Result<()> {
        let folder = tempfile::tempdir()?;
        let path = path(folder.path());
        write(&path, "a pid that is longer than any\n")?;

        let file = lock(&path)?;

        assert_eq!(read_to_string(&path)?, format!("{}\n", std::process::id()));
        assert!(lock(&path).is_err() && has_name(&file, &path)?);
        remove_file(&path)?;
        assert!(!has_name(&file, &path)?);
        Ok(())
    }
}
