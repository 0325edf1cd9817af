//! Folders that nobody else can look into or change.

use std::path::Path;

use crankcase_workers::{FileError, Folder};

use super::error::StateError;

/// The name of the file that holds the process id of the folder's holder.
pub(super) const LOCK: &str = "lock";

/// Makes a folder that is only ours, or makes the one that is there so if it is ours.
pub(crate) fn own(path: &Path) -> Result<Folder, StateError> {
    let prepare = || {
        let folder = Folder::make(path)?;
        require_used(&folder)?;
        folder.make_private()?;
        Ok(folder)
    };
    prepare().map_err(|error| refused(path, error))
}

/// Refuses to take the rights of others to a folder that holds other things than the state: it was
/// hardly meant.
fn require_used(folder: &Folder) -> Result<(), FileError> {
    let mode = folder.look_at_itself()?.mode;
    let is_used = folder.look(LOCK)?.is_some();
    if mode & 0o077 == 0 || is_used || folder.names(1)?.is_empty() {
        return Ok(());
    }
    let reason = format!(
        "it holds other things, and others can look into it (mode {mode:04o}); name a folder that \
         is not there yet, or set its mode to 0700"
    );
    Err(FileError::NotPrivate { path: folder.path().to_owned(), reason })
}

fn refused(path: &Path, error: FileError) -> StateError {
    match error {
        FileError::NotPrivate { path, reason } => StateError::Unsafe { path, reason },
        FileError::NotAFolder { path } => {
            StateError::Unsafe { path, reason: "it is not a folder".to_owned() }
        }
        error @ FileError::ForeignLink { .. } => {
            StateError::Unsafe { path: path.to_owned(), reason: error.to_string() }
        }
        error => StateError::Folder { path: path.to_owned(), source: error.into() },
    }
}
