//! How a record is stored: one JSON file for each process.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::UNFINISHED;

/// One record.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(in super::super) struct Entry {
    pub(in super::super) name: String,
    pub(in super::super) boot_id: String,
    pub(in super::super) token: String,
    /// The process; absent until it is spawned.
    pub(in super::super) process: Option<Identity>,
    /// Where the record stands; not part of it.
    #[serde(skip)]
    pub(in super::super) path: PathBuf,
}

/// Which process it is.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(in super::super) struct Identity {
    pub(in super::super) id: i32,
    /// In clock ticks after the boot.
    pub(in super::super) start_time: u64,
}

impl Entry {
    /// Reads the record at `path`.
    pub(in super::super) fn read(path: &Path) -> io::Result<Self> {
        let mut entry: Self = serde_json::from_slice(&fs::read(path)?)?;
        path.clone_into(&mut entry.path);
        Ok(entry)
    }

    /// Puts the record in its place, as a whole and on the disk; when it fails, leaves nothing beside
    /// it.
    pub(super) fn replace(&self) -> io::Result<()> {
        let unfinished = self.path.with_extension(UNFINISHED);
        self.write(&unfinished).inspect_err(|_| {
            // That it failed says more than that there is something left, or nothing.
            let _removed = fs::remove_file(&unfinished);
        })?;
        match self.path.parent() {
            Some(folder) => File::open(folder)?.sync_all(),
            None => Ok(()),
        }
    }

    /// Puts the record in its place by way of `unfinished`.
    fn write(&self, unfinished: &Path) -> io::Result<()> {
        let mut options = OpenOptions::new();
        options.write(true).create(true).truncate(true).mode(0o600);
        let mut file = options.open(unfinished)?;
        file.write_all(&serde_json::to_vec(self)?)?;
        file.sync_all()?;
        fs::rename(unfinished, &self.path)
    }
}
