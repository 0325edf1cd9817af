//! Folders that nobody else can change.

use std::fs::{self, DirBuilder, Metadata};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::Path;

use rustix::process::geteuid;

use super::StateError;

/// Makes a folder that is only ours, or checks that the one that is there is.
pub(super) fn make(path: &Path) -> Result<(), StateError> {
    create(path).map_err(|source| failed(path, source))?;
    let metadata = fs::metadata(path).map_err(|source| failed(path, source))?;
    check(path, &metadata)
}

/// As [`make`], in a place where others can make entries: the folder must not be a symlink.
pub(crate) fn own(path: &Path) -> Result<(), StateError> {
    create(path).map_err(|source| failed(path, source))?;
    let metadata = fs::symlink_metadata(path).map_err(|source| failed(path, source))?;
    check(path, &metadata)
}

/// What is there already, of whatever sort, is left to be checked.
fn create(path: &Path) -> io::Result<()> {
    match DirBuilder::new().recursive(true).mode(0o700).create(path) {
        Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(()),
        created => created,
    }
}

fn failed(path: &Path, source: io::Error) -> StateError {
    StateError::Folder { path: path.to_owned(), source }
}

fn check(path: &Path, metadata: &Metadata) -> Result<(), StateError> {
    let user = geteuid().as_raw();
    let mode = metadata.mode() & 0o7777;
    let reason = if !metadata.is_dir() {
        "it is not a folder".to_owned()
    } else if metadata.uid() != user {
        format!("it belongs to user {}, not to user {user}", metadata.uid())
    } else if mode & 0o022 != 0 {
        format!("others can change what is in it (mode {mode:04o}); expected mode 0700")
    } else {
        return Ok(());
    };
    Err(StateError::Unsafe { path: path.to_owned(), reason })
}
