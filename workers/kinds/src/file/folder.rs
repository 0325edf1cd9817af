//! Finding the folder that holds an entry, without falling for a symlink that others have put.
//!
//! Invariants:
//! 1. Every step goes from an open folder to a name in it, so what was judged is what is used.
//! 2. A symlink is followed only if its owner is root or the agent's user and so is every folder
//!    above it, and none of those can be written by others unless it is sticky.
use std::collections::VecDeque;
use std::ffi::OsString;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStringExt;
use std::path::{Component, Path, PathBuf};

use rustix::fs::{CWD, FileType, Mode, OFlags, ResolveFlags, Stat};
use rustix::io::Errno;

use crate::file::error::FileError;

/// How many symlinks one path may lead through; the kernel's own limit.
const LINK_LIMIT: usize = 40;

const FOLDER: OFlags = OFlags::PATH.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);

/// Opens the folder at an absolute path.
pub(super) fn open(path: &Path) -> Result<OwnedFd, FileError> {
    match rustix::fs::openat2(CWD, path, FOLDER, Mode::empty(), ResolveFlags::NO_SYMLINKS) {
        Ok(folder) => Ok(folder),
        // A symlink, an old kernel, a sandbox, or an error that the walk can name better.
        Err(_) => Walk::new(path)?.finish(),
    }
}

/// Returns whether others than root and the agent's user could put an entry here.
pub(super) fn is_shared(folder: &Stat) -> bool {
    !is_ours(folder) || folder.st_mode & 0o022 != 0
}

fn is_ours(stat: &Stat) -> bool {
    stat.st_uid == 0 || stat.st_uid == rustix::process::geteuid().as_raw()
}

/// Returns whether nobody else can replace an entry here that is ours.
fn holds_still(folder: &Stat) -> bool {
    is_ours(folder) && (folder.st_mode & 0o022 == 0 || folder.st_mode & 0o1000 != 0)
}

struct Walk {
    folder: OwnedFd,
    /// The way to `folder`, for errors.
    path: PathBuf,
    rest: VecDeque<OsString>,
    links: usize,
    /// Whether invariant 2 allows to follow links from here on.
    is_safe: bool,
}

impl Walk {
    fn new(path: &Path) -> Result<Self, FileError> {
        let root = Path::new("/");
        let folder = open_root()?;
        let mut walk =
            Self { folder, path: root.to_owned(), rest: VecDeque::new(), links: 0, is_safe: true };
        walk.push(path);
        walk.judge()?;
        Ok(walk)
    }

    fn finish(mut self) -> Result<OwnedFd, FileError> {
        while let Some(name) = self.rest.pop_front() {
            self.step(&name)?;
        }
        Ok(self.folder)
    }

    fn step(&mut self, name: &OsString) -> Result<(), FileError> {
        let path = self.path.join(name);
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let entry = match rustix::fs::openat(&self.folder, name, flags, Mode::empty()) {
            Ok(entry) => entry,
            Err(Errno::NOENT) => return Err(FileError::MissingFolder { folder: path }),
            Err(err) => return Err(FileError::io("open folder", &path)(err)),
        };
        let stat = rustix::fs::fstat(&entry).map_err(FileError::io("look at", &path))?;
        match FileType::from_raw_mode(stat.st_mode) {
            FileType::Directory => {
                self.folder = entry;
                if name == ".." {
                    self.path.pop();
                } else {
                    self.path = path;
                }
                self.judge()
            }
            FileType::Symlink => self.follow(&entry, &stat, path),
            _ => Err(FileError::NotAFolder { path }),
        }
    }

    fn follow(&mut self, link: &OwnedFd, stat: &Stat, path: PathBuf) -> Result<(), FileError> {
        if !self.is_safe || !is_ours(stat) {
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
        let stat = rustix::fs::fstat(&self.folder).map_err(FileError::io("look at", &self.path))?;
        self.is_safe &= holds_still(&stat);
        Ok(())
    }
}

fn open_root() -> Result<OwnedFd, FileError> {
    let root = Path::new("/");
    rustix::fs::openat(CWD, root, FOLDER, Mode::empty()).map_err(FileError::io("open folder", root))
}
