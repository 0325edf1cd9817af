//! Tells when something was mounted or unmounted.

use std::fs::File;
use std::future::pending;
use std::io;
use std::sync::Arc;

use tokio::io::Interest;

use crate::readiness::{ReadyFd, register};

/// The kernel's list of mounts, which tells of changes since it was opened.
#[derive(Debug)]
pub(super) struct Mounts {
    /// Absent where `/proc` is not mounted; then mounts are not told.
    list: Option<File>,
}

impl Mounts {
    pub(super) fn open() -> Self {
        Self { list: File::open("/proc/self/mountinfo").ok() }
    }

    /// Registers the list with the runtime.
    pub(super) fn register(self) -> io::Result<MountEvents> {
        let register = |list: File| register(Arc::new(list.into()), Interest::PRIORITY);
        Ok(MountEvents { list: self.list.map(register).transpose()? })
    }
}

/// The list of mounts of a worker that runs.
#[derive(Debug)]
pub(super) struct MountEvents {
    list: Option<ReadyFd>,
}

impl MountEvents {
    /// Waits for a change of the list. Cancel safe.
    pub(super) async fn changed(&mut self) -> io::Result<()> {
        let Some(list) = &self.list else { return pending().await };
        list.ready(Interest::PRIORITY).await?.clear_ready();
        Ok(())
    }
}
