//! What the watcher is compared with: bare reads of an inotify instance.

use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

use rustix::fs::inotify::{self, CreateFlags, Reader, WatchFlags};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::sync::Notify;
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::files::{CHANGES, Files};

/// Returns the time from a change to the end of a blocking read in the same thread.
pub(crate) fn blocking(files: &Files) -> Duration {
    let instance = instance(files, CreateFlags::CLOEXEC);
    let mut buffer = [MaybeUninit::uninit(); 16 * 1024];
    let mut reader = Reader::new(&instance, &mut buffer);
    let began = Instant::now();
    for number in 0..CHANGES {
        files.change(number);
        read(&mut reader).unwrap();
    }
    began.elapsed() / CHANGES
}

/// Returns the time from a change until a task that reads has told the one that changed.
pub(crate) async fn task(files: &Files) -> Duration {
    let instance = instance(files, CreateFlags::CLOEXEC | CreateFlags::NONBLOCK);
    let (told, mut tasks) = (Arc::new(Notify::new()), JoinSet::new());
    tasks.spawn(tell(instance, Arc::clone(&told)));
    let began = Instant::now();
    for number in 0..CHANGES {
        files.change(number);
        told.notified().await;
    }
    began.elapsed() / CHANGES
}

async fn tell(instance: OwnedFd, told: Arc<Notify>) {
    #[expect(deprecated, reason = "it owns its descriptor and never changes it")]
    let instance = AsyncFd::with_interest(instance, Interest::READABLE).unwrap();
    let mut buffer = [MaybeUninit::uninit(); 16 * 1024];
    let mut reader = Reader::new(instance.get_ref(), &mut buffer);
    loop {
        let mut ready = instance.readable().await.unwrap();
        if ready.try_io(|_| Ok(read(&mut reader)?)).is_ok() {
            told.notify_one();
        }
    }
}

/// Returns an instance that watches every folder.
fn instance(files: &Files, flags: CreateFlags) -> OwnedFd {
    let instance = inotify::init(flags).unwrap();
    for folder in &files.folders {
        inotify::add_watch(&instance, folder, WatchFlags::MODIFY).unwrap();
    }
    instance
}

/// Reads until the buffer is empty.
fn read(reader: &mut Reader<'_, impl AsFd>) -> rustix::io::Result<()> {
    loop {
        reader.next()?;
        if reader.is_buffer_empty() {
            return Ok(());
        }
    }
}
