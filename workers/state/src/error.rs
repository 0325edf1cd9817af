//! What may be wrong with the records of a state folder.

use std::path::PathBuf;

use crankcase_resources::BoxError;
use crankcase_sqlite::SqliteError;

/// Why the records of a state folder cannot be read or written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SqliteStoreError {
    /// The file cannot be opened or used.
    #[error(transparent)]
    File(#[from] SqliteError),
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
