//! The files that are watched.

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::PathBuf;

use tempfile::TempDir;

const FOLDERS: usize = 100;
const FILES: usize = 100;

/// How many changes a round has.
pub(crate) const CHANGES: u32 = 10_000;

/// Folders full of files, in a folder of their own.
pub(crate) struct Files {
    pub(crate) folders: Vec<PathBuf>,
    pub(crate) paths: Vec<PathBuf>,
    /// One open file of each folder.
    open: Vec<File>,
    _root: TempDir,
}

impl Files {
    pub(crate) fn make() -> Self {
        let root = TempDir::new().unwrap();
        let (mut folders, mut paths, mut open) = (Vec::new(), Vec::new(), Vec::new());
        for folder in 0..FOLDERS {
            let folder = root.path().join(format!("folder-{folder}"));
            fs::create_dir(&folder).unwrap();
            for file in 0..FILES {
                let path = folder.join(format!("file-{file}"));
                let file = File::create(&path).unwrap();
                if paths.len() % FILES == FILES / 2 {
                    open.push(file);
                }
                paths.push(path);
            }
            folders.push(folder);
        }
        Self { folders, paths, open, _root: root }
    }

    /// Changes one file; another one each time.
    pub(crate) fn change(&self, number: u32) {
        let file = &self.open[number as usize % self.open.len()];
        file.write_at(b"x", 0).unwrap();
    }
}
