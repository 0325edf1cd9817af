//! Learns that processes are gone: a FIFO ends when the last of its writers has.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, FileType, Mode, mknodat};
use tempfile::TempDir;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use crate::running::{TestResult, guarded};

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

    /// Begins to wait for the writers; the first of them must write a line.
    pub(crate) fn writers(&self) -> Writers {
        let path = self.path();
        let (tx, first) = oneshot::channel();
        let end = tokio::task::spawn_blocking(move || {
            let mut fifo = File::open(path)?;
            fifo.read_exact(&mut [0])?;
            let _gone = tx.send(());
            fifo.read_to_end(&mut Vec::new()).map(drop)
        });
        Writers { first: Some(first), end }
    }
}

/// The processes that hold a FIFO open.
pub(crate) struct Writers {
    first: Option<oneshot::Receiver<()>>,
    end: JoinHandle<std::io::Result<()>>,
}

impl Writers {
    /// Waits until one of them has written something.
    pub(crate) async fn come(&mut self) -> TestResult {
        Ok(guarded(self.first.take().ok_or("waited for before")?).await?)
    }

    /// Waits until there is none any more.
    pub(crate) async fn are_gone(self) -> TestResult {
        Ok(guarded(self.end).await??)
    }
}

/// Returns a shell script that holds `fifo` open, with all that it starts.
pub(crate) fn holding(fifo: &Path, script: &str) -> String {
    format!("exec 3>{}\n{script}", fifo.display())
}
