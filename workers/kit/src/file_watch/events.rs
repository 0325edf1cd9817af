//! Reads what the kernel tells.

use std::ffi::{OsStr, OsString};
use std::future::pending;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::sync::Arc;

use rustix::fs::inotify::{ReadFlags, Reader};
use tokio::io::Interest;

use crate::readiness::{ReadyFd, register};

/// Holds some hundred events; the longest has 272 bytes.
const BUFFER: usize = 16 * 1024;

/// One event in a watched folder.
#[derive(Debug)]
pub(super) struct FileEvent {
    pub(super) watch: i32,
    pub(super) flags: ReadFlags,
    /// The entry; `None` for the folder itself.
    pub(super) name: Option<OsString>,
}

/// The events of an inotify instance, once there is one.
#[derive(Debug, Default)]
pub(super) struct Events {
    instance: Option<ReadyFd>,
}

impl Events {
    /// Reads from `instance` from now on, if it reads from none yet.
    pub(super) fn follow(&mut self, instance: Option<Arc<OwnedFd>>) -> io::Result<()> {
        if let (None, Some(fd)) = (&self.instance, instance) {
            self.instance = Some(register(fd, Interest::READABLE)?);
        }
        Ok(())
    }

    /// Waits for the next batch of events. Cancel safe: nothing is awaited after the read.
    pub(super) async fn next(&self) -> io::Result<Vec<FileEvent>> {
        let Some(instance) = &self.instance else { return pending().await };
        loop {
            let mut ready = instance.readable().await?;
            if let Ok(batch) = ready.try_io(|instance| read(instance.get_ref())) {
                return batch;
            }
        }
    }
}

/// Reads one buffer of events.
fn read(instance: &Arc<OwnedFd>) -> io::Result<Vec<FileEvent>> {
    let mut buffer = [MaybeUninit::uninit(); BUFFER];
    let mut reader = Reader::new(instance, &mut buffer);
    let mut batch = Vec::new();
    loop {
        let event = reader.next()?;
        // The kernel fills names up with NUL, also those that are empty.
        let name = event.file_name().map(|name| OsStr::from_bytes(name.to_bytes()).to_owned());
        let name = name.filter(|name| !name.is_empty());
        batch.push(FileEvent { watch: event.wd(), flags: event.events(), name });
        if reader.is_buffer_empty() {
            return Ok(batch);
        }
    }
}
