//! Learns that processes are gone: a FIFO ends when the last of its writers has.

use std::path::{Path, PathBuf};

use rustix::fs::{CWD, FileType, Mode, mknodat};
use tempfile::TempDir;
use tokio::task::JoinHandle;

/// A FIFO in a folder of its own.
pub(crate) struct Fifo {
    folder: TempDir,
}

impl Fifo {
    pub(crate) fn new() -> std::io::Result<Self> {
        let folder = TempDir::new()?;
        mknodat(CWD, folder.path().join("fifo"), FileType::Fifo, Mode::RWXU, 0)?;
        Ok(Self { folder })
    }

    pub(crate) fn path(&self) -> PathBuf {
        self.folder.path().join("fifo")
    }

    /// Waits for a first writer, then until none is left, and returns what they wrote.
    pub(crate) fn writers(&self) -> JoinHandle<std::io::Result<String>> {
        let path = self.path();
        tokio::task::spawn_blocking(move || std::fs::read_to_string(path))
    }
}

/// Returns a shell script that holds `fifo` open, with all that it starts.
pub(crate) fn holding(fifo: &Path, script: &str) -> String {
    format!("exec 3>{}\n{script}", fifo.display())
}
