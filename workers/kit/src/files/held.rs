//! The folders that this process holds under their paths.
//!
//! Invariants:
//! 1. While a folder is held, its path and every path below it lead into that folder, whatever becomes of the path.
//! 2. From a held folder on, no symlink is followed.
use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use parking_lot::RwLock;

/// By their absolute paths. Of several folders that are held under one path the last one counts.
static HELD: RwLock<BTreeMap<PathBuf, Vec<Arc<OwnedFd>>>> = RwLock::new(BTreeMap::new());

/// A folder that is held under its path, see [`Folder::hold_path`](crate::Folder::hold_path).
#[derive(Debug)]
#[must_use = "the path leads to the folder only as long as this lives"]
pub struct HeldFolder {
    path: PathBuf,
    fd: Arc<OwnedFd>,
}

impl HeldFolder {
    pub(super) fn new(path: PathBuf, fd: OwnedFd) -> Self {
        let fd = Arc::new(fd);
        HELD.write().entry(path.clone()).or_default().push(Arc::clone(&fd));
        Self { path, fd }
    }
}

impl Drop for HeldFolder {
    fn drop(&mut self) {
        let mut held = HELD.write();
        let Some(folders) = held.get_mut(&self.path) else { return };
        folders.retain(|fd| !Arc::ptr_eq(fd, &self.fd));
        if folders.is_empty() {
            held.remove(&self.path);
        }
    }
}

/// Returns the innermost held folder that a path leads into, and the part of the path below it.
pub(super) fn find(path: &Path) -> Option<(Arc<OwnedFd>, PathBuf)> {
    let held = HELD.read();
    if held.is_empty() {
        return None;
    }
    let path = std::path::absolute(path).ok()?;
    path.ancestors().find_map(|folder| {
        let fd = held.get(folder)?.last()?;
        let below = path.strip_prefix(folder).ok()?;
        let is_below = below.components().all(|part| matches!(part, Component::Normal(_)));
        is_below.then(|| (Arc::clone(fd), below.to_owned()))
    })
}
