//! Reads the regular files that a person names, within a bound and without a hang.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use rustix::fs::{CWD, Mode, OFlags};

use super::entry::Found;
use super::error::FileError;
use super::kind::EntryKind;

/// Never waits for the other end of a FIFO, and never makes a terminal the agent's own.
pub(super) const READ: OFlags =
    OFlags::RDONLY.union(OFlags::NONBLOCK).union(OFlags::NOCTTY).union(OFlags::CLOEXEC);

/// Opens a regular file that a person names for reading, and returns its size in bytes with it.
///
/// Symlinks are followed. A FIFO or a device is refused before it is opened, which could hang or do
/// something, and once more after it, in case one has taken the place of the file.
///
/// # Errors
///
/// [`FileError::WrongKind`], or when the system refuses.
pub fn open_file(path: &Path) -> Result<(File, u64), FileError> {
    let stat = rustix::fs::stat(path).map_err(FileError::io("read", path))?;
    Found::from(&stat).require(EntryKind::File, path)?;
    let file = rustix::fs::openat(CWD, path, READ, Mode::empty());
    let file = file.map_err(FileError::io("read", path))?;
    let found = Found::at(&file, path)?.require(EntryKind::File, path)?;
    Ok((File::from(file), found.size))
}

/// Reads a regular file as [`open_file`] opens it.
///
/// # Errors
///
/// As `open_file`, and [`FileError::TooLarge`] when it has more than `limit` bytes; no more than
/// that many are kept in memory.
pub fn read_file(path: &Path, limit: u64) -> Result<Vec<u8>, FileError> {
    let (file, size) = open_file(path)?;
    read_opened((file, size), path, limit)
}

pub(super) fn read_opened(
    (file, size): (File, u64),
    path: &Path,
    limit: u64,
) -> Result<Vec<u8>, FileError> {
    let too_large = || FileError::TooLarge { path: path.to_owned(), limit };
    if size > limit {
        return Err(too_large());
    }
    let mut bytes = Vec::new();
    let mut file = file.take(limit.saturating_add(1));
    file.read_to_end(&mut bytes).map_err(FileError::io("read", path))?;
    if u64::try_from(bytes.len()).is_ok_and(|length| length <= limit) {
        return Ok(bytes);
    }
    Err(too_large())
}
