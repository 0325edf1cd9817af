//! What a look finds of an entry, and the entry itself, held so that only it is changed.

use std::ffi::OsStr;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, Gid, Mode, Stat, StatxAttributes, StatxFlags, Uid};
use rustix::io::Errno;

use super::error::FileError;
use super::kind::EntryKind;
use crate::proc_mount::explain_proc;

/// An entry as a look has found it. A symlink is not followed.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Found {
    /// The kind of the entry.
    pub kind: EntryKind,
    /// The permissions, with the bits for set-user-ID, set-group-ID and sticky.
    pub mode: u32,
    /// The id of the owning user.
    pub user: u32,
    /// The id of the owning group.
    pub group: u32,
    /// The size in bytes.
    pub size: u64,
    /// How many names it has (hard links).
    pub links: u64,
    /// The device and the number on it, which tell it from every other entry.
    pub(super) id: (u64, u64),
}

impl Found {
    pub(super) fn at(entry: impl AsFd, path: &Path) -> Result<Self, FileError> {
        let stat = rustix::fs::fstat(entry).map_err(FileError::io("look at", path))?;
        Ok(Self::from(&stat))
    }

    /// Returns whether the entry belongs to root or to the agent's user.
    pub fn is_ours(&self) -> bool {
        self.user == 0 || self.user == rustix::process::geteuid().as_raw()
    }

    /// Returns whether nobody but root and the agent's user can put an entry into this folder.
    pub(super) fn is_closed(&self) -> bool {
        self.is_ours() && self.mode & 0o022 == 0
    }

    /// Returns whether nobody else can replace an entry of ours in this folder.
    pub(super) fn holds_still(&self) -> bool {
        self.is_closed() || (self.is_ours() && self.mode & 0o1000 != 0)
    }

    /// Refuses an entry of another kind; `path` names it in the error.
    ///
    /// # Errors
    ///
    /// [`FileError::WrongKind`].
    pub fn require(self, wanted: EntryKind, path: &Path) -> Result<Self, FileError> {
        if self.kind == wanted {
            return Ok(self);
        }
        Err(FileError::WrongKind { path: path.to_owned(), found: self.kind, wanted })
    }

    /// Refuses a file that has other names, which a write in place would change too; `path` names it
    /// in the error.
    ///
    /// # Errors
    ///
    /// [`FileError::HardLinks`].
    pub fn require_one_link(self, path: &Path) -> Result<Self, FileError> {
        // One that was removed meanwhile has none.
        if self.links <= 1 {
            return Ok(self);
        }
        Err(FileError::HardLinks { path: path.to_owned(), links: self.links })
    }
}

impl From<&Stat> for Found {
    #[allow(clippy::useless_conversion, reason = "on some machines the count of links is a u32")]
    fn from(stat: &Stat) -> Self {
        Self {
            kind: EntryKind::of(stat),
            mode: stat.st_mode & 0o7777,
            user: stat.st_uid,
            group: stat.st_gid,
            size: u64::try_from(stat.st_size).unwrap_or_default(),
            links: u64::from(stat.st_nlink),
            id: (stat.st_dev, stat.st_ino),
        }
    }
}

/// An entry that is held as it is: what is put in its place meanwhile is not touched.
///
/// It is not open for reading, so it may be one that nobody may read.
#[derive(Debug)]
pub struct Entry {
    pub(super) fd: OwnedFd,
    pub(super) path: PathBuf,
}

impl Entry {
    /// Looks at the entry.
    ///
    /// # Errors
    ///
    /// When the system refuses.
    pub fn look(&self) -> Result<Found, FileError> {
        Found::at(&self.fd, &self.path)
    }

    /// Sets the permissions, by way of `/proc`, which has to be mounted.
    ///
    /// # Errors
    ///
    /// When the system refuses.
    pub fn set_mode(&self, mode: u32) -> Result<(), FileError> {
        let name = format!("/proc/self/fd/{}", self.fd.as_raw_fd());
        let set = rustix::fs::chmod(name, Mode::from_raw_mode(mode));
        set.map_err(|error| {
            let error = explain_proc(explain_immutable(&self.fd, OsStr::new(""), error));
            FileError::io("set the mode of", &self.path)(error)
        })
    }

    /// Sets the owners that are others than the entry has: not everyone may set those that it has.
    ///
    /// # Errors
    ///
    /// When the system refuses.
    pub fn set_owners(&self, user: Option<u32>, group: Option<u32>) -> Result<(), FileError> {
        set_owners(self.fd.as_fd(), &self.path, (user, group))
    }
}

pub(super) fn set_owners(
    entry: BorrowedFd<'_>,
    path: &Path,
    (user, group): (Option<u32>, Option<u32>),
) -> Result<(), FileError> {
    let found = Found::at(entry, path)?;
    let user = user.filter(|user| *user != found.user).map(Uid::from_raw);
    let group = group.filter(|group| *group != found.group).map(Gid::from_raw);
    if user.is_none() && group.is_none() {
        return Ok(());
    }
    rustix::fs::chownat(entry, "", user, group, AtFlags::EMPTY_PATH).map_err(|error| {
        let error = explain_immutable(entry, OsStr::new(""), error);
        FileError::io("set the owner of", path)(error)
    })
}

/// Returns an error that a change of an entry gave, or of the open file itself for no name; one that says so if
/// the cause is that the entry is marked as immutable.
pub(super) fn explain_immutable(folder: impl AsFd, name: &OsStr, error: Errno) -> io::Error {
    let cause = io::Error::from(error);
    let flags = AtFlags::SYMLINK_NOFOLLOW | AtFlags::EMPTY_PATH;
    let marks = StatxAttributes::IMMUTABLE | StatxAttributes::APPEND;
    let found = rustix::fs::statx(folder, name, flags, StatxFlags::TYPE);
    let is_marked = found.is_ok_and(|found| found.stx_attributes.intersects(marks));
    if error != Errno::PERM || !is_marked {
        return cause;
    }
    io::Error::new(cause.kind(), format!("{cause}: lsattr shows it as immutable or append-only"))
}
