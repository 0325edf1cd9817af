//! The folder in which an agent keeps what outlives it.

mod folder;
mod lock;

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use crankcase_engine::WithCauses;
use rustix::process::geteuid;
use thiserror::Error;

pub(crate) use folder::own;
pub use lock::StateLock;

/// The name of the file that holds the process id of the folder's holder.
const LOCK: &str = "lock";

/// The folder in which an agent keeps what outlives it, and in which its socket is if the path is
/// short enough for one.
///
/// Looking at it takes no lock; whoever changes the machine or the folder holds its
/// [lock](Self::lock).
///
/// # Examples
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use crankcase_status::{StateDir, StateError};
///
/// # let folder = tempfile::tempdir()?;
/// let state_dir = StateDir::new(folder.path().join("state"));
/// let lock = state_dir.lock()?;
/// let refused = state_dir.lock().unwrap_err();
/// assert!(matches!(refused, StateError::Held { pid: Some(pid), .. } if pid == std::process::id()));
/// drop(lock);
/// state_dir.lock()?;
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StateDir {
    path: PathBuf,
}

/// Why a state folder cannot be used.
#[derive(Error)]
#[non_exhaustive]
pub enum StateError {
    /// Neither `XDG_STATE_HOME` nor `HOME` says where the state is: name a folder.
    #[error("cannot tell where the state folder is: neither XDG_STATE_HOME nor HOME is set")]
    NoHome,
    /// The folder cannot be made or looked at.
    #[error("cannot use the state folder {path:?}")]
    Folder {
        /// The folder.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// Others could change what is in the folder.
    #[error("cannot use the folder {path:?}: {reason}")]
    Unsafe {
        /// The folder.
        path: PathBuf,
        /// What is wrong with it, and what would be right.
        reason: String,
    },
    /// Another process holds the folder: wait for it, or name another folder.
    #[error("the state folder {path:?} is held by {}", holder(*pid))]
    Held {
        /// The folder.
        path: PathBuf,
        /// The process; `None` if it has not said yet.
        pid: Option<u32>,
    },
}

impl fmt::Debug for StateError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&WithCauses(self), f)
    }
}

fn holder(pid: Option<u32>) -> String {
    pid.map_or_else(|| "another process".to_owned(), |pid| format!("process {pid}"))
}

impl StateDir {
    /// Returns the state folder with this path. It need not exist.
    pub fn new(path: PathBuf) -> Self {
        Self { path }
    }

    /// Returns the state folder of this user: `/var/lib/crankcase` for root, else
    /// `$XDG_STATE_HOME/crankcase`, which is `~/.local/state/crankcase` by default.
    ///
    /// # Errors
    ///
    /// When the environment does not say where that is.
    pub fn of_user() -> Result<Self, StateError> {
        if geteuid().is_root() {
            return Ok(Self::new("/var/lib/crankcase".into()));
        }
        // A relative path is invalid by the specification of these variables, and ignored.
        let folder = |name| std::env::var_os(name).map(PathBuf::from).filter(|p| p.is_absolute());
        let state = folder("XDG_STATE_HOME");
        let state = state.or_else(|| folder("HOME").map(|home| home.join(".local/state")));
        state.map(|state| Self::new(state.join("crankcase"))).ok_or(StateError::NoHome)
    }

    /// Returns the folder's path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Makes the folder with mode 0700 if it is not there, and takes its lock. A folder of ours that
    /// others can look into gets that mode too, unless it holds other things than the state.
    ///
    /// A symlink is followed only where nobody but root and the user could have put it.
    ///
    /// The lock is given back when it is dropped and when the process ends, however it ends. It is on
    /// the folder, and holds also when the files in it are deleted; a folder that is itself deleted
    /// or moved away while it is held is not seen to be held by who makes another in its place.
    ///
    /// # Errors
    ///
    /// When the folder cannot be made, others could change what is in it or have put it there, and
    /// [`StateError::Held`] when another process holds it.
    pub fn lock(&self) -> Result<StateLock, StateError> {
        lock::take(self, &own(&self.path)?)
    }
}
