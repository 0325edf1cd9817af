//! Finding a folder without falling for a symlink that others have put.
//!
//! Invariants:
//! 1. Every step goes from an open folder to a name in it, so what was judged is what is used.
//! 2. A symlink is followed only if its owner is root or the agent's user and so is every folder
//!    above it, and none of those can be written by others unless it is sticky.
//! 3. The walk to what is in a held folder begins at that folder, and follows no symlink.
use std::collections::VecDeque;
use std::ffi::{OsStr, OsString};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStringExt;
use std::path::{Component, Path, PathBuf};

use rustix::fs::{CWD, Mode, OFlags, ResolveFlags};
use rustix::io::Errno;

use super::entry::{Entry, Found};
use super::error::FileError;
use super::held;
use super::kind::EntryKind;

/// How many symlinks one path may lead through; the kernel's own limit.
const LINK_LIMIT: usize = 40;

const FOLDER: OFlags = OFlags::PATH.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);

/// The treatment of a folder that is not there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Missing {
    IsAnError,
    /// It is made, for the agent's user alone.
    IsMade,
}

/// Opens the folder at a path.
pub(super) fn open(path: &Path, missing: Missing) -> Result<OwnedFd, FileError> {
    // It is the parent of a relative path that is but a name.
    let path = if path.as_os_str().is_empty() { Path::new(".") } else { path };
    if let Some((held, below)) = held::find(path) {
        let folder = held.try_clone().map_err(FileError::io("hold", path))?;
        return Walk::in_held(folder, (path, &below), missing).finish();
    }
    match rustix::fs::openat2(CWD, path, FOLDER, Mode::empty(), ResolveFlags::NO_SYMLINKS) {
        Ok(folder) => Ok(folder),
        // A symlink, an old kernel, a sandbox, or an error that the walk can name better.
        Err(_) => {
            let path = std::path::absolute(path).map_err(FileError::io("find folder", path))?;
            Walk::new(&path, missing)?.finish()
        }
    }
}

struct Walk {
    folder: OwnedFd,
    /// The way to `folder`, for errors.
    path: PathBuf,
    rest: VecDeque<OsString>,
    links: usize,
    /// Whether invariant 2 allows to follow links from here on.
    is_safe: bool,
    /// Whether the walk began at a held folder (invariant 3).
    is_in_held: bool,
    missing: Missing,
}

impl Walk {
    fn new(path: &Path, missing: Missing) -> Result<Self, FileError> {
        let (root, rest) = (Path::new("/").to_owned(), VecDeque::new());
        let folder = open_root()?;
        let (is_safe, is_in_held) = (true, false);
        let mut walk = Self { folder, path: root, rest, links: 0, is_safe, is_in_held, missing };
        walk.push(path);
        walk.judge()?;
        Ok(walk)
    }

    /// Returns the walk from a held folder to the rest of a path, which is below it.
    fn in_held(folder: OwnedFd, (path, below): (&Path, &Path), missing: Missing) -> Self {
        let depth = below.components().count();
        let above = path.ancestors().nth(depth).unwrap_or(path).to_owned();
        let (is_safe, is_in_held, rest) = (false, true, VecDeque::new());
        let mut walk = Self { folder, path: above, rest, links: 0, is_safe, is_in_held, missing };
        walk.push(below);
        walk
    }

    fn finish(mut self) -> Result<OwnedFd, FileError> {
        while let Some(name) = self.rest.pop_front() {
            self.step(&name)?;
        }
        Ok(self.folder)
    }

    fn step(&mut self, name: &OsStr) -> Result<(), FileError> {
        let path = self.path.join(name);
        let entry = match hold(&self.folder, name) {
            Err(Errno::NOENT) if self.missing == Missing::IsMade => self.make(name, &path)?,
            Err(Errno::NOENT) => return Err(FileError::MissingFolder { path }),
            entry => entry.map_err(FileError::io("open folder", &path))?,
        };
        let found = Found::at(&entry, &path)?;
        match found.kind {
            EntryKind::Folder => {
                self.folder = entry;
                if name == ".." {
                    self.path.pop();
                } else {
                    self.path = path;
                }
                self.judge()
            }
            _ if self.is_in_held => found.require(EntryKind::Folder, &path).map(drop),
            EntryKind::Symlink => self.follow(&entry, &found, path),
            _ => Err(FileError::NotAFolder { path }),
        }
    }

    /// Makes a folder that is missing. If another process makes it first, that one is taken.
    fn make(&self, name: &OsStr, path: &Path) -> Result<OwnedFd, FileError> {
        let made = match rustix::fs::mkdirat(&self.folder, name, Mode::RWXU) {
            Err(Errno::EXIST) => false,
            made => made.map(|()| true).map_err(FileError::io("create folder", path))?,
        };
        let fd = hold(&self.folder, name).map_err(FileError::io("open folder", path))?;
        let entry = Entry { fd, path: path.to_owned() };
        // The umask may have taken the owner's own rights.
        if made && entry.look()?.mode != 0o700 {
            entry.set_mode(0o700)?;
        }
        Ok(entry.fd)
    }

    fn follow(&mut self, link: &OwnedFd, found: &Found, path: PathBuf) -> Result<(), FileError> {
        if !self.is_safe || !found.is_ours() {
            return Err(FileError::ForeignLink { path });
        }
        self.links += 1;
        if self.links > LINK_LIMIT {
            return Err(FileError::TooManyLinks { path });
        }
        let target =
            rustix::fs::readlinkat(link, "", Vec::new()).map_err(FileError::io("follow", &path))?;
        let target = PathBuf::from(OsString::from_vec(target.into_bytes()));
        if target.is_absolute() {
            self.folder = open_root()?;
            self.path = PathBuf::from("/");
        }
        self.push(&target);
        Ok(())
    }

    /// Puts the names of a path before the rest.
    fn push(&mut self, path: &Path) {
        let names = path.components().rev().filter_map(|part| match part {
            Component::Normal(name) => Some(name.to_owned()),
            Component::ParentDir => Some("..".into()),
            _ => None,
        });
        for name in names {
            self.rest.push_front(name);
        }
    }

    fn judge(&mut self) -> Result<(), FileError> {
        self.is_safe &= Found::at(&self.folder, &self.path)?.holds_still();
        Ok(())
    }
}

fn hold(folder: impl AsFd, name: &OsStr) -> rustix::io::Result<OwnedFd> {
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    rustix::fs::openat(folder, name, flags, Mode::empty())
}

fn open_root() -> Result<OwnedFd, FileError> {
    let root = Path::new("/");
    rustix::fs::openat(CWD, root, FOLDER, Mode::empty()).map_err(FileError::io("open folder", root))
}
