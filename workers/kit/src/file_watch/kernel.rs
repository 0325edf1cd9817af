//! The inotify instance.

use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::Arc;

use rustix::fs::inotify::{self, CreateFlags, WatchFlags};
use rustix::io::Errno;

use super::error::{WatchLimits, WatchProblem};

/// Changes of what a name means: enough for a folder on the way to a path.
const NAMES: WatchFlags = WatchFlags::CREATE
    .union(WatchFlags::DELETE)
    .union(WatchFlags::MOVE)
    .union(WatchFlags::ATTRIB)
    .union(WatchFlags::DELETE_SELF)
    .union(WatchFlags::MOVE_SELF);

/// Changes of what is in the entries.
const CONTENTS: WatchFlags = WatchFlags::MODIFY.union(WatchFlags::CLOSE_WRITE);

/// A watch that several paths share adds up what they ask for, and a symlink or a file that has
/// just taken the place of the folder is refused.
const HOW: WatchFlags = SHARED.union(WatchFlags::ONLYDIR);
const SHARED: WatchFlags = WatchFlags::MASK_ADD.union(WatchFlags::DONT_FOLLOW);

/// The changes in a folder that a watch asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Interest {
    /// Changes of the meaning of its names.
    Names,
    /// Also changes of the content of its entries.
    Contents,
}

/// Why a folder is not watched.
#[derive(Debug)]
pub(super) enum Refusal {
    /// It is not a folder any more.
    Vanished,
    /// It is there and not watched.
    Problem(WatchProblem),
}

/// An inotify instance, closed with the last clone.
#[derive(Debug, Clone)]
pub(super) struct Kernel {
    fd: Arc<OwnedFd>,
}

impl Kernel {
    pub(super) fn open() -> Result<Self, Errno> {
        let fd = inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK)?;
        Ok(Self { fd: Arc::new(fd) })
    }

    pub(super) fn fd(&self) -> &Arc<OwnedFd> {
        &self.fd
    }

    /// Watches a folder and returns the kernel's name for the watch: the same for the same folder.
    pub(super) fn add(&self, folder: &Path, interest: Interest) -> Result<i32, Refusal> {
        let what = match interest {
            Interest::Names => NAMES,
            Interest::Contents => NAMES | CONTENTS,
        };
        inotify::add_watch(&self.fd, folder, what | HOW).map_err(|err| match err {
            Errno::NOENT | Errno::NOTDIR | Errno::LOOP => Refusal::Vanished,
            Errno::NOSPC => Refusal::Problem(limit(folder)),
            err => Refusal::Problem(WatchProblem::Folder {
                folder: folder.to_owned(),
                source: err.into(),
            }),
        })
    }

    /// Watches a file itself, whichever of its names it is changed through. None if the kernel does not, as for a file
    /// that may not be read.
    pub(super) fn add_file(&self, file: &Path) -> Result<Option<i32>, WatchProblem> {
        let what = CONTENTS | WatchFlags::ATTRIB | SHARED;
        match inotify::add_watch(&self.fd, file, what) {
            Ok(watch) => Ok(Some(watch)),
            Err(Errno::NOSPC) => Err(limit(file)),
            Err(_) => Ok(None),
        }
    }

    /// Releases a watch; the kernel may have done so already, with the folder.
    pub(super) fn remove(&self, watch: i32) {
        if let Err(err) = inotify::remove_watch(&self.fd, watch)
            && err != Errno::INVAL
        {
            let error: &dyn std::error::Error = &err;
            tracing::warn!(watch, error, "cannot release file watch");
        }
    }
}

/// Returns the problem of a path for which there is no watch any more.
fn limit(path: &Path) -> WatchProblem {
    WatchProblem::Limit { folder: path.to_owned(), limits: WatchLimits::of_watches() }
}
