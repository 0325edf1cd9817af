//! What may be wrong with a file.

use std::error::Error;
use std::io::{self, ErrorKind};
use std::iter::successors;
use std::path::PathBuf;

use rusqlite::ErrorCode;

/// Why a file cannot be opened or used. It is exhaustive, so that a crate that has other words for
/// some of its variants forgets none.
#[derive(Debug, thiserror::Error)]
pub enum SqliteError {
    /// The file cannot be made or found.
    #[error("cannot make or find {}", path.display())]
    Make {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The file is damaged or no database, the disk fails or is full, or another process locks the
    /// file for too long.
    #[error("cannot use the {content} in {}", path.display())]
    Use {
        /// What the file holds.
        content: &'static str,
        /// The file.
        path: PathBuf,
        /// What SQLite said.
        source: rusqlite::Error,
    },
    /// The file is a database of something else.
    #[error("the file {} has no {content}: it is a database of something else", path.display())]
    Foreign {
        /// What the file should hold.
        content: &'static str,
        /// The file.
        path: PathBuf,
    },
    /// An earlier version of the program has made the file, and it was opened to be read.
    #[error(
        "the file {} has version {version} of the {content}; it is brought to version {newest} \
         when it is written next",
        path.display()
    )]
    Older {
        /// What the file holds.
        content: &'static str,
        /// The file.
        path: PathBuf,
        /// The version of its tables.
        version: i64,
        /// The newest version.
        newest: i64,
    },
    /// A later version of the program has made the file.
    #[error(
        "the file {} has version {version} of the {content}; this program reads up to {newest}",
        path.display()
    )]
    Version {
        /// What the file holds.
        content: &'static str,
        /// The file.
        path: PathBuf,
        /// The version of its tables.
        version: i64,
        /// The newest version that this program reads.
        newest: i64,
    },
}

/// Returns whether an error, or one of its causes, says that a file cannot be written: the disk is
/// full or read-only, or the user may not write. Such a file may be read.
pub fn is_unwritable(error: &(dyn Error + 'static)) -> bool {
    successors(Some(error), |error| (*error).source()).any(|error| {
        let kind = error.downcast_ref::<io::Error>().map(io::Error::kind);
        let code = error.downcast_ref::<rusqlite::Error>();
        let code = code.and_then(rusqlite::Error::sqlite_error_code);
        matches!(
            kind,
            Some(
                ErrorKind::StorageFull
                    | ErrorKind::QuotaExceeded
                    | ErrorKind::ReadOnlyFilesystem
                    | ErrorKind::PermissionDenied
            )
        ) || matches!(
            code,
            Some(
                ErrorCode::DiskFull
                    | ErrorCode::SystemIoFailure
                    | ErrorCode::ReadOnly
                    | ErrorCode::CannotOpen
                    | ErrorCode::PermissionDenied
            )
        )
    })
}
