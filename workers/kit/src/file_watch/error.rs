//! Why a path cannot be watched, or not by the kernel.

use std::fmt;
use std::fs;
use std::io;
use std::path::PathBuf;

use crankcase_engine::WithCauses;
use thiserror::Error;

/// Why a path cannot be watched at all.
#[derive(Error)]
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

impl fmt::Debug for WatchError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&WithCauses(self), f)
    }
}

/// Why a path is not watched by the kernel, in part or as a whole.
///
/// Its subscription is told periodically instead, until the cause is gone.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum WatchProblem {
    /// There is no inotify instance: this process has too many open files, or its user too many
    /// instances (`fs.inotify.max_user_instances`).
    #[error("cannot open an inotify instance{}", limits.text())]
    Instance {
        /// What the system said the limits are.
        limits: WatchLimits,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// The user has too many watches (`fs.inotify.max_user_watches`).
    #[error("cannot watch {folder:?}: this user may have no more inotify watches{}", limits.text())]
    Limit {
        /// What the system said the limits are.
        limits: WatchLimits,
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

/// The limits that stood against a watch, as they were then.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct WatchLimits {
    /// The names of the kernel's settings, and their values; those that cannot be read are left out.
    pub settings: Vec<(&'static str, u64)>,
}

impl WatchLimits {
    /// Returns the limits of how many watches there may be.
    pub(super) fn of_watches() -> Self {
        Self::read([
            ("fs.inotify.max_user_watches", "/proc/sys/fs/inotify/max_user_watches"),
            ("user.max_inotify_watches", "/proc/sys/user/max_inotify_watches"),
        ])
    }

    /// Returns the limits of how many instances there may be.
    pub(super) fn of_instances() -> Self {
        Self::read([
            ("fs.inotify.max_user_instances", "/proc/sys/fs/inotify/max_user_instances"),
            ("user.max_inotify_instances", "/proc/sys/user/max_inotify_instances"),
        ])
    }

    fn read(settings: [(&'static str, &str); 2]) -> Self {
        let value = |path: &str| fs::read_to_string(path).ok()?.trim().parse().ok();
        let settings = settings.into_iter();
        let settings = settings.filter_map(|(name, path)| Some((name, value(path)?)));
        Self { settings: settings.collect() }
    }

    fn text(&self) -> String {
        let settings = self.settings.iter().map(|(name, value)| format!("{name} is {value}"));
        let settings = settings.collect::<Vec<_>>().join(", ");
        if settings.is_empty() { settings } else { format!(" ({settings})") }
    }
}
