//! Opening files that others name.

use std::fs::{self, File, FileType};
use std::io;
use std::path::Path;

use rustix::fs::{Mode, OFlags};

/// Why a file was not opened; see [`open_regular`].
#[derive(Debug, thiserror::Error)]
pub enum OpenRegularError {
    /// It is something else, such as a folder or a pipe.
    #[error("it is not a regular file")]
    Other(FileType),
    /// The system refused, for example because there is none.
    #[error(transparent)]
    Refused(io::Error),
}

impl<E: Into<io::Error>> From<E> for OpenRegularError {
    fn from(error: E) -> Self {
        Self::Refused(error.into())
    }
}

/// Opens a regular file for reading, and returns its size in bytes with it. Symlinks are followed.
///
/// A pipe or a device is refused before it is opened, which could hang or do something; and once
/// more after it, in case one has taken the place of the file.
///
/// # Errors
///
/// When it is no regular file, or cannot be opened.
pub fn open_regular(path: &Path) -> Result<(File, u64), OpenRegularError> {
    require_regular(&fs::metadata(path)?)?;
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let file = File::from(rustix::fs::open(path, flags, Mode::empty())?);
    let metadata = file.metadata()?;
    require_regular(&metadata)?;
    Ok((file, metadata.len()))
}

fn require_regular(metadata: &fs::Metadata) -> Result<(), OpenRegularError> {
    if metadata.is_file() { Ok(()) } else { Err(OpenRegularError::Other(metadata.file_type())) }
}
