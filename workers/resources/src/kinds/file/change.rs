//! What the actions of a file or folder do. Each finds the entry anew: it may have moved since the
//! check.
use std::fs::File;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::sync::Arc;

use crankcase_engine::Stop;
use rustix::fs::{AtFlags, Gid, Mode, OFlags, Uid};

use crate::kinds::file::config::FileConfig;
use crate::kinds::file::content::Content;
use crate::kinds::file::error::FileError;
use crate::kinds::file::folder;
use crate::kinds::file::observe::{open, stat};
use crate::kinds::file::temporary::Temporary;

/// A change of one entry.
#[derive(Debug, Clone)]
pub(super) struct Change {
    pub(super) config: Arc<FileConfig>,
    /// The mode that the entry gets.
    pub(super) mode: u32,
    /// The owners that the entry gets; `None` leaves them.
    pub(super) user: Option<u32>,
    pub(super) group: Option<u32>,
}

impl Change {
    /// Writes the file anew.
    pub(super) fn write(&self, content: &Content, stop: &Stop) -> Result<(), FileError> {
        let path = &self.config.path;
        let full = path.full();
        let folder = folder::open(&path.parent)?;
        let mut temporary = Temporary::create(&folder, path)?;
        self.own(temporary.file(), &full)?;
        content.write(temporary.file(), &full, stop)?;
        self.permit(temporary.file(), &full)?;
        temporary.file().sync_all().map_err(FileError::io("sync", &full))?;
        // Last look: what is no file must not be replaced by one.
        stat(&folder, path)?;
        temporary.rename(path)?;
        sync(&folder, &path.parent)
    }

    /// Creates the folder.
    pub(super) fn create_folder(&self) -> Result<(), FileError> {
        let path = &self.config.path;
        let full = path.full();
        let folder = folder::open(&path.parent)?;
        rustix::fs::mkdirat(&folder, &path.name, Mode::RWXU)
            .map_err(FileError::io("create folder", &full))?;
        let finished = open(&folder, path).and_then(|(entry, _)| {
            self.own(&entry, &full)?;
            self.permit(&entry, &full)
        });
        if finished.is_err() {
            // It is our own and empty; if it cannot be removed, the next check mends it.
            rustix::fs::unlinkat(&folder, &path.name, AtFlags::REMOVEDIR).ok();
        }
        finished?;
        sync(&folder, &path.parent)
    }

    /// Sets mode and owners of what exists.
    pub(super) fn adjust(&self) -> Result<(), FileError> {
        let path = &self.config.path;
        let full = path.full();
        let folder = folder::open(&path.parent)?;
        let (entry, stat) = open(&folder, path)?;
        let parent = rustix::fs::fstat(&folder).map_err(FileError::io("look at", &path.parent))?;
        // A hard link that another has put here may be to a file anywhere.
        if !path.is_folder && stat.st_nlink > 1 && folder::is_shared(&parent) {
            return Err(FileError::HardLinked { path: full });
        }
        self.own(&entry, &full)?;
        self.permit(&entry, &full)
    }

    /// Removes the file or the empty folder.
    pub(super) fn remove(&self) -> Result<(), FileError> {
        let path = &self.config.path;
        let folder = folder::open(&path.parent)?;
        if stat(&folder, path)?.is_none() {
            return Ok(());
        }
        // The kernel refuses a folder that has been filled since the check.
        let flags = if path.is_folder { AtFlags::REMOVEDIR } else { AtFlags::empty() };
        rustix::fs::unlinkat(&folder, &path.name, flags)
            .map_err(FileError::io("remove", &path.full()))?;
        sync(&folder, &path.parent)
    }

    /// Sets the owners that are others: not everyone may set those that an entry has already.
    fn own(&self, entry: impl AsFd, path: &Path) -> Result<(), FileError> {
        let stat = rustix::fs::fstat(&entry).map_err(FileError::io("look at", path))?;
        let user = self.user.filter(|user| *user != stat.st_uid).map(Uid::from_raw);
        let group = self.group.filter(|group| *group != stat.st_gid).map(Gid::from_raw);
        if user.is_none() && group.is_none() {
            return Ok(());
        }
        rustix::fs::fchown(entry, user, group).map_err(FileError::io("set the owner of", path))
    }

    /// Comes after [`own`](Self::own), which clears the set-user-ID bit.
    fn permit(&self, entry: impl AsFd, path: &Path) -> Result<(), FileError> {
        rustix::fs::fchmod(entry, Mode::from_raw_mode(self.mode))
            .map_err(FileError::io("set the mode of", path))
    }
}

/// Makes a change of the folder's entries last.
fn sync(folder: &OwnedFd, path: &Path) -> Result<(), FileError> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let readable = rustix::fs::openat(folder, ".", flags, Mode::empty())
        .map_err(FileError::io("sync", path))?;
    File::from(readable).sync_all().map_err(FileError::io("sync", path))
}
