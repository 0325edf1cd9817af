//! What may be wrong with the file.

use std::io::{self, ErrorKind};
use std::path::PathBuf;

use crankcase_resources::BoxError;
use rusqlite::ErrorCode;

use crate::tables::VERSION;

/// Why the records of a state folder cannot be read or written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SqliteStoreError {
    /// The file cannot be made or found.
    #[error("cannot make or find {}", path.display())]
    Make {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The file is damaged or no database, or the disk refuses.
    #[error("cannot use the records in {}", path.display())]
    Use {
        /// The file.
        path: PathBuf,
        /// What SQLite said.
        source: rusqlite::Error,
    },
    /// The file is a database of something else.
    #[error("the file {} has no records: it is a database of something else", path.display())]
    Foreign {
        /// The file.
        path: PathBuf,
    },
    /// A later version of the program has made the file.
    #[error(
        "the records in {} have version {version}; this program reads up to {VERSION}",
        path.display()
    )]
    Version {
        /// The file.
        path: PathBuf,
        /// The version of its tables.
        version: i64,
    },
    /// What an earlier version of the program has left cannot be taken over.
    #[error("cannot take over {}", path.display())]
    TakeOver {
        /// The file of the earlier version.
        path: PathBuf,
        /// What is wrong with it.
        source: BoxError,
    },
    /// The store was opened to be read.
    #[error("the records in {} were opened to be read", path.display())]
    OnlyRead {
        /// The file.
        path: PathBuf,
    },
}

impl SqliteStoreError {
    /// Returns whether the file may be read though it cannot be written.
    pub(crate) fn is_unwritable(&self) -> bool {
        match self {
            Self::Make { source, .. } => matches!(
                source.kind(),
                ErrorKind::StorageFull
                    | ErrorKind::QuotaExceeded
                    | ErrorKind::ReadOnlyFilesystem
                    | ErrorKind::PermissionDenied
            ),
            Self::Use { source, .. } => matches!(
                source.sqlite_error_code(),
                Some(
                    ErrorCode::DiskFull
                        | ErrorCode::SystemIoFailure
                        | ErrorCode::ReadOnly
                        | ErrorCode::CannotOpen
                        | ErrorCode::PermissionDenied
                )
            ),
            _ => false,
        }
    }
}
