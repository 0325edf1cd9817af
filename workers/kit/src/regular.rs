//! Opening files that others name.

use std::fs::{self, File, FileType};
use std::io;
use std::path::Path;

use rustix::fs::{Mode, OFlags};

/// Why a file was not opened.
#[derive(Debug)]
pub(crate) enum NotOpened {
    /// It is something else than a regular file.
    Other(FileType),
    /// The system refused.
    Refused(io::Error),
}

impl<E: Into<io::Error>> From<E> for NotOpened {
    fn from(error: E) -> Self {
        Self::Refused(error.into())
    }
}

/// Opens a regular file for reading, and returns its size with it.
///
/// A pipe or a device is refused before it is opened, which could hang or do something; and once
/// more after it, in case one has taken the place of the file.
pub(crate) fn open(path: &Path) -> Result<(File, u64), NotOpened> {
    require_regular(&fs::metadata(path)?)?;
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let file = File::from(rustix::fs::open(path, flags, Mode::empty())?);
    let metadata = file.metadata()?;
    require_regular(&metadata)?;
    Ok((file, metadata.len()))
}

fn require_regular(metadata: &fs::Metadata) -> Result<(), NotOpened> {
    if metadata.is_file() { Ok(()) } else { Err(NotOpened::Other(metadata.file_type())) }
}
