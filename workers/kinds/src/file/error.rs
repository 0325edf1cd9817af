use std::io;
use std::path::{Path, PathBuf};

use crankcase_resources::RenderError;

/// Why a file or folder cannot be looked at or changed.
#[derive(Debug, thiserror::Error)]
pub(super) enum FileError {
    #[error("folder {folder:?} does not exist; a resource that this one depends on must make it")]
    MissingFolder { folder: PathBuf },
    #[error("{path:?} is not a folder")]
    NotAFolder { path: PathBuf },
    #[error(
        "{path:?} is a symlink where others than the agent's user can write; \
         name the folder that it leads to"
    )]
    ForeignLink { path: PathBuf },
    #[error("{path:?} is one of too many symlinks")]
    TooManyLinks { path: PathBuf },
    #[error("{path:?} is {found} and not {wanted}; it is left as it is")]
    WrongType { path: PathBuf, found: &'static str, wanted: &'static str },
    #[error("folder {path:?} is not empty, it holds {entries}; only an empty folder is removed")]
    NotEmpty { path: PathBuf, entries: String },
    #[error(
        "{path:?} has other names (hard links) and stands where others can write; \
         its mode and owner are left as they are"
    )]
    HardLinked { path: PathBuf },
    #[error("another process is just writing {path:?}")]
    Busy { path: PathBuf },
    #[error("there is no {what} \"{name}\"")]
    NoPrincipal { what: &'static str, name: String },
    #[error("{path:?} is larger than the {limit} bytes that a template may have")]
    TooLarge { path: PathBuf, limit: u64 },
    #[error("{path:?} is not UTF-8 text, as a template must be")]
    NotText { path: PathBuf },
    #[error("the states of {} are not known", aliases.join(", "))]
    Unknown { aliases: Vec<String> },
    #[error("it was told to stop")]
    Stopped,
    #[error("cannot render {path:?}")]
    Render { path: PathBuf, source: RenderError },
    #[error("cannot {doing} {path:?}")]
    Io { doing: &'static str, path: PathBuf, source: io::Error },
}

impl FileError {
    /// Returns whether the system has refused this to the agent's user.
    pub(super) fn is_denied(&self) -> bool {
        matches!(self, Self::Io { source, .. } if source.kind() == io::ErrorKind::PermissionDenied)
    }

    /// Returns a function that makes an error of the system's.
    pub(super) fn io<E: Into<io::Error>>(
        doing: &'static str,
        path: &Path,
    ) -> impl FnOnce(E) -> Self {
        move |source| Self::Io { doing, path: path.to_owned(), source: source.into() }
    }
}
