//! A file by which a process says that it is ready.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use parking_lot::Mutex;
use tokio::time::sleep;

use super::probe::PAUSE;

/// The identity of a file, which tells it from the file that was there before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ReadyFile {
    device: u64,
    inode: u64,
    changed: (i64, i64),
}

impl ReadyFile {
    /// Looks at a file; returns none if there is none. Blocks for the disk.
    pub(super) fn look(path: &Path) -> io::Result<Option<Self>> {
        match fs::metadata(path) {
            Ok(found) => Ok(Some(Self {
                device: found.dev(),
                inode: found.ino(),
                changed: (found.ctime(), found.ctime_nsec()),
            })),
            Err(err) if err.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(err) => Err(err),
        }
    }
}

/// Waits until there is a file other than `before`; `missing` says what is there instead. Cancel
/// safe.
pub(super) async fn until_written(
    path: &Path,
    before: Option<ReadyFile>,
    missing: &Mutex<Option<String>>,
) {
    loop {
        let owned = path.to_owned();
        let looked = tokio::task::spawn_blocking(move || ReadyFile::look(&owned)).await;
        let text = match looked.unwrap_or_else(|err| Err(io::Error::other(err))) {
            Ok(Some(found)) if before != Some(found) => return,
            Ok(Some(_)) => format!("it has not written {path:?} since it was started"),
            Ok(None) => format!("there is no {path:?}"),
            Err(err) => format!("cannot look for {path:?}: {err}"),
        };
        *missing.lock() = Some(text);
        sleep(PAUSE).await;
    }
}
