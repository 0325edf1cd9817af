//! Why a file or folder cannot be read, looked at or changed.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use crankcase_engine::WithCauses;
use thiserror::Error;

use super::kind::EntryKind;

/// Why a file or folder cannot be read, looked at or changed.
#[derive(Error)]
#[non_exhaustive]
pub enum FileError {
    /// A folder on the way does not exist: make it first.
    #[error("folder {path:?} does not exist")]
    MissingFolder {
        /// The folder.
        path: PathBuf,
    },
    /// Something that is no folder is on the way.
    #[error("{path:?} is not a folder")]
    NotAFolder {
        /// The entry that is there instead.
        path: PathBuf,
    },
    /// A symlink on the way may be somebody else's: name the folder that it leads to.
    #[error(
        "{path:?} is a symlink where others than the agent's user can write; \
         name the folder that it leads to"
    )]
    ForeignLink {
        /// The symlink.
        path: PathBuf,
    },
    /// The path leads through more than 40 symlinks, or through one for ever.
    #[error("{path:?} is one of too many symlinks")]
    TooManyLinks {
        /// The symlink at which the walk was given up.
        path: PathBuf,
    },
    /// Something of another kind has the name: it is never touched.
    #[error("{path:?} is {found} and not {wanted}; it is left as it is")]
    WrongKind {
        /// The path.
        path: PathBuf,
        /// The kind of the entry that is there.
        found: EntryKind,
        /// The kind of entry that is right.
        wanted: EntryKind,
    },
    /// A file has more bytes than its reader takes.
    #[error("{path:?} is larger than {limit} bytes")]
    TooLarge {
        /// The file.
        path: PathBuf,
        /// How many bytes it may have.
        limit: u64,
    },
    /// Another process holds the temporary file: try again later.
    #[error("another process is just writing {path:?}")]
    Busy {
        /// The temporary file.
        path: PathBuf,
    },
    /// A folder that is to be the agent's alone is not.
    #[error("cannot use the folder {path:?}: {reason}")]
    NotPrivate {
        /// The folder.
        path: PathBuf,
        /// What is wrong with the folder, and what would be right.
        reason: String,
    },
    /// The system refused.
    #[error("cannot {doing} {path:?}")]
    Io {
        /// The operation, as a verb.
        doing: &'static str,
        /// The path on which it was done.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// A file that is to be written in place has other names, and may be somebody else's: put a copy in its place.
    #[error(
        "{path:?} has {links} hard links, and a write to it would change it under all of them; \
         put a copy in its place, or remove the other links"
    )]
    HardLinks {
        /// The file.
        path: PathBuf,
        /// How many names it has.
        links: u64,
    },
}

impl FileError {
    /// Returns a function that makes an error of what the system said.
    pub fn io<E: Into<io::Error>>(doing: &'static str, path: &Path) -> impl FnOnce(E) -> Self {
        move |source| Self::Io { doing, path: path.to_owned(), source: source.into() }
    }

    /// Returns whether the system has refused this to the agent's user.
    pub fn is_denied(&self) -> bool {
        self.kind() == Some(io::ErrorKind::PermissionDenied)
    }

    /// Returns whether there is no such file or folder.
    pub fn is_missing(&self) -> bool {
        matches!(self, Self::MissingFolder { .. })
            || matches!(self.kind(), Some(io::ErrorKind::NotFound | io::ErrorKind::NotADirectory))
    }

    fn kind(&self) -> Option<io::ErrorKind> {
        match self {
            Self::Io { source, .. } => Some(source.kind()),
            _ => None,
        }
    }
}

impl fmt::Debug for FileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&WithCauses(self), f)
    }
}

/// Returns the error of the system if there is one, else wraps this error.
impl From<FileError> for io::Error {
    fn from(error: FileError) -> Self {
        match error {
            FileError::Io { source, .. } => source,
            other => Self::other(other),
        }
    }
}
