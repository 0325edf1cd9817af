//! The folder that a sample is tried in, and what is there.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use parking_lot::Mutex;
use tempfile::TempDir;

/// A folder that is the same path, and empty, for each try.
#[derive(Debug)]
pub(super) struct World {
    _root: TempDir,
    folder: PathBuf,
    /// The paths below it whose content may differ each time.
    volatile: Mutex<BTreeSet<PathBuf>>,
}

impl World {
    pub(super) fn new() -> io::Result<Self> {
        let root = tempfile::tempdir()?;
        let folder = root.path().join("world");
        fs::create_dir(&folder)?;
        Ok(Self { _root: root, folder, volatile: Mutex::default() })
    }

    pub(super) fn folder(&self) -> &Path {
        &self.folder
    }

    /// Lets the content at a path, and below it, differ each time.
    pub(super) fn allow(&self, path: PathBuf) {
        self.volatile.lock().insert(path);
    }

    /// Empties the folder.
    pub(super) fn clear(&self) -> io::Result<()> {
        fs::remove_dir_all(&self.folder)?;
        fs::create_dir(&self.folder)
    }

    pub(super) fn look(&self) -> io::Result<Snapshot> {
        let volatile = self.volatile.lock();
        let mut entries = BTreeMap::new();
        let mut folders = vec![self.folder.clone()];
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(&folder)? {
                let path = entry?.path();
                let about = fs::symlink_metadata(&path)?;
                let content = if volatile.contains(&path) {
                    Vec::new()
                } else if about.is_dir() {
                    folders.push(path.clone());
                    Vec::new()
                } else if about.is_symlink() {
                    fs::read_link(&path)?.into_os_string().into_encoded_bytes()
                } else if about.is_file() {
                    fs::read(&path)?
                } else {
                    Vec::new()
                };
                let owners = (about.uid(), about.gid());
                entries.insert(path, Entry { mode: about.mode(), owners, content });
            }
        }
        Ok(Snapshot(entries))
    }
}

/// What is in a folder, and in those below it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Snapshot(BTreeMap<PathBuf, Entry>);

#[derive(Debug, Clone, PartialEq, Eq)]
struct Entry {
    mode: u32,
    owners: (u32, u32),
    content: Vec<u8>,
}

impl Snapshot {
    /// Returns the paths that are not the same in another one.
    pub(super) fn differing<'a>(&'a self, other: &'a Self) -> Vec<&'a Path> {
        let changed = self.0.iter().filter(|(path, entry)| other.0.get(*path) != Some(entry));
        let gone = other.0.keys().filter(|path| !self.0.contains_key(*path));
        changed.map(|(path, _)| path).chain(gone).map(PathBuf::as_path).collect()
    }

    /// Returns the paths that are in this world in a form that none of the others has.
    pub(super) fn strange<'a>(&self, worlds: &'a [Self]) -> BTreeSet<&'a Path> {
        let known = worlds.iter().flat_map(|world| world.0.keys());
        let strange = known
            .filter(|path| !worlds.iter().any(|world| world.0.get(*path) == self.0.get(*path)));
        strange.map(PathBuf::as_path).collect()
    }

    /// Returns how long the longest file is, in bytes.
    pub(super) fn longest(&self) -> usize {
        self.0.values().map(|entry| entry.content.len()).max().unwrap_or_default()
    }
}
