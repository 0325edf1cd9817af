//! Why a file or a folder cannot be kept as declared.

use std::io;
use std::path::{Path, PathBuf};

use crankcase_resources::front::RenderError;
use crankcase_workers::FileError;

use crate::command::ended::RunError;

/// Why a file or folder cannot be kept as declared.
#[derive(Debug, thiserror::Error)]
pub(super) enum EntryError {
    #[error("folder {folder:?} does not exist; a resource that this one depends on must make it")]
    MissingFolder { folder: PathBuf },
    #[error("folder {path:?} is not empty, it holds {entries}; only an empty folder is removed")]
    NotEmpty { path: PathBuf, entries: String },
    #[error(
        "{path:?} has other names (hard links) and stands where others can write; \
         its mode and owner are left as they are"
    )]
    HardLinked { path: PathBuf },
    #[error(
        "{path:?} was made by user {user} where others than the agent's user can write, and may \
         still be open to that user; it is not given to another owner. Declare its content, and it \
         is written anew, or remove it"
    )]
    ForeignFile { path: PathBuf, user: String },
    #[error(
        "{path:?} cannot be replaced by a new file: {why}; with in_place: auto it is written in place"
    )]
    NotReplaced { path: PathBuf, why: &'static str },
    #[error(
        "{path:?} can only be written in place, and there is no state folder in which its content could be \
         kept meanwhile"
    )]
    NoJournal { path: PathBuf },
    #[error(
        "{path:?} cannot be replaced by a new file: {why}; so there is no new file that validate \
         could judge"
    )]
    NoNewFile { path: PathBuf, why: &'static str },
    #[error("{program:?} refused the new content: it {end}{said}")]
    Refused { program: String, end: String, said: String },
    #[error("cannot validate the new content")]
    NotValidated(#[source] RunError),
    #[error("{path:?} is a mount point, and cannot be removed")]
    MountPoint { path: PathBuf },
    #[error("there is no {what} \"{name}\"")]
    NoPrincipal { what: &'static str, name: String },
    #[error("{path:?} is larger than the {limit} bytes that a template may have")]
    LargeTemplate { path: PathBuf, limit: u64 },
    #[error("{path:?} has changed since it was looked at; nothing was written")]
    Moved { path: PathBuf },
    #[error("only one of content, source, template can be given")]
    TwoContents,
    #[error("only UTF-8 text of at most 16 MiB is sent, and {path:?} is something else")]
    NotSent { path: PathBuf },
    #[error("{path:?} is empty, which is refused unless allow_empty: true is declared")]
    Empty { path: PathBuf },
    #[error("{path:?} is not UTF-8 text, as a template must be")]
    NotText { path: PathBuf },
    #[error("{path:?} is made or changed by a resource before this one, and is known after that")]
    MadeBefore { path: PathBuf },
    #[error("{path:?} may be changed by a resource before this one, and is known after that")]
    MayBeMadeBefore { path: PathBuf },
    #[error("the states of {} are not known", aliases.join(", "))]
    Unknown { aliases: Vec<String> },
    #[error("it is to be looked at first")]
    NotLookedAt,
    #[error("it was told to stop")]
    Stopped,
    #[error("cannot render {path:?}")]
    Render { path: PathBuf, source: RenderError },
    #[error(transparent)]
    File(FileError),
}

impl EntryError {
    /// Returns a function that makes an error of the system's.
    pub(super) fn io(doing: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        let error = FileError::io(doing, path);
        move |source| Self::File(error(source))
    }
}

impl From<FileError> for EntryError {
    fn from(error: FileError) -> Self {
        match error {
            FileError::MissingFolder { path } => Self::MissingFolder { folder: path },
            other => Self::File(other),
        }
    }
}
