use std::io;
use std::path::PathBuf;

use thiserror::Error;

/// Why a path cannot be watched at all.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum WatchError {
    /// The path does not begin at the root.
    #[error("cannot watch {path:?}: not an absolute path")]
    Relative {
        /// The path.
        path: PathBuf,
    },
    /// The watcher has ended; nothing will be told any more.
    #[error("the file watcher has ended")]
    Ended,
    /// The kernel's events cannot be read.
    #[error("cannot read file events")]
    Read {
        /// What the system said.
        #[source]
        source: io::Error,
    },
}

/// Why a path is not watched by the kernel, in part or as a whole.
///
/// Its subscription is told periodically instead, until the cause is gone.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum WatchProblem {
    /// There is no inotify instance: this process has too many open files, or its user too many
    /// instances (`fs.inotify.max_user_instances`).
    #[error("cannot open an inotify instance")]
    Instance {
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// The user has too many watches (`fs.inotify.max_user_watches`).
    #[error("cannot watch {folder:?}: the user's limit of inotify watches is reached")]
    Limit {
        /// The folder that is not watched.
        folder: PathBuf,
    },
    /// A folder cannot be watched, most often because it cannot be read.
    #[error("cannot watch {folder:?}")]
    Folder {
        /// The folder that is not watched.
        folder: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
}
