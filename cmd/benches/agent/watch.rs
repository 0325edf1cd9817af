//! Waits for events of folders.

use std::ffi::CStr;
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::inotify::{self, CreateFlags, Reader, WatchFlags};

/// After how many seconds without an event something must be wrong.
const HANG: i64 = 60;

/// An inotify instance.
pub(crate) struct Watch(OwnedFd);

impl Watch {
    pub(crate) fn new() -> Self {
        Self(inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK).unwrap())
    }

    /// Watches a folder; returns the number that its events have.
    pub(crate) fn add(&self, folder: &Path, events: WatchFlags) -> i32 {
        inotify::add_watch(&self.0, folder, events).unwrap()
    }

    /// Waits for events; hands over the number of the folder and the name of each.
    pub(crate) fn wait(&self, mut event: impl FnMut(i32, &CStr)) {
        let timeout = Timespec { tv_sec: HANG, tv_nsec: 0 };
        let ready = poll(&mut [PollFd::new(&self.0, PollFlags::IN)], Some(&timeout)).unwrap();
        assert!(ready == 1, "nothing has happened for {HANG} s");
        let mut buffer = [MaybeUninit::uninit(); 16 * 1024];
        let mut reader = Reader::new(&self.0, &mut buffer);
        while let Ok(found) = reader.next() {
            event(found.wd(), found.file_name().unwrap_or_default());
        }
    }
}
