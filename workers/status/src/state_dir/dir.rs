//! The path of a state folder, and where it is by default.

use std::path::{Path, PathBuf};

use rustix::process::geteuid;

use super::error::StateError;

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
}
