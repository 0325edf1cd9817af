//! What the actions of a file or folder do. Each finds the entry anew: it may have moved since the
//! check.
use std::fs::File;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crankcase_resources::ActionContext;
use crankcase_workers::explain_proc;
use rustix::fs::{AtFlags, Gid, Mode, OFlags, Stat, Uid};

use crate::file::config::FileConfig;
use crate::file::content::Content;
use crate::file::error::FileError;
use crate::file::folder;
use crate::file::observe::{hold, open, stat};
use crate::file::temporary::Temporary;

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
    pub(super) fn write(
        &self,
        content: &Content,
        context: &ActionContext,
    ) -> Result<(), FileError> {
        let path = &self.config.path;
        let full = path.full();
        let folder = folder::open(&path.parent)?;
        let entries = Entries::open(&folder, &path.parent)?;
        let mut temporary = Temporary::create(&folder, path)?;
        self.own(temporary.file(), &full)?;
        content.write(temporary.file(), &full, context.stop())?;
        self.permit(temporary.file(), &full)?;
        temporary.file().sync_all().map_err(FileError::io("sync", &full))?;
        // Last look: what is no file must not be replaced by one.
        stat(&folder, path)?;
        temporary.rename(path)?;
        entries.sync(context);
        Ok(())
    }

    /// Creates the folder.
    pub(super) fn create_folder(&self, context: &ActionContext) -> Result<(), FileError> {
        let path = &self.config.path;
        let full = path.full();
        let folder = folder::open(&path.parent)?;
        let entries = Entries::open(&folder, &path.parent)?;
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
        entries.sync(context);
        Ok(())
    }

    /// Sets mode and owners of what exists.
    pub(super) fn adjust(&self) -> Result<(), FileError> {
        let path = &self.config.path;
        let full = path.full();
        let folder = folder::open(&path.parent)?;
        let (entry, stat) = hold(&folder, path)?;
        let parent = rustix::fs::fstat(&folder).map_err(FileError::io("look at", &path.parent))?;
        // A hard link that another has put here may be to a file anywhere.
        if !path.is_folder && stat.st_nlink > 1 && folder::is_shared(&parent) {
            return Err(FileError::HardLinked { path: full });
        }
        // Opened as it is, the entry has a name that leads to it, whoever may read it and whatever
        // is put in its place.
        let name = format!("/proc/self/fd/{}", entry.as_raw_fd());
        let set = |mode| {
            let mode = Mode::from_raw_mode(mode);
            let set = rustix::fs::chmod(&name, mode).map_err(|error| explain_proc(error.into()));
            set.map_err(FileError::io("set the mode of", &full))
        };
        if self.owners(&stat).is_some() {
            // Nobody gets more, not even for a moment: neither the new owners by the old mode, nor
            // the old ones by the new.
            set(stat.st_mode & self.mode)?;
        }
        self.own(&entry, &full)?;
        set(self.mode)
    }

    /// Removes the file or the empty folder.
    pub(super) fn remove(&self, context: &ActionContext) -> Result<(), FileError> {
        let path = &self.config.path;
        let folder = folder::open(&path.parent)?;
        if stat(&folder, path)?.is_none() {
            return Ok(());
        }
        let entries = Entries::open(&folder, &path.parent)?;
        // The kernel refuses a folder that has been filled since the check.
        let flags = if path.is_folder { AtFlags::REMOVEDIR } else { AtFlags::empty() };
        rustix::fs::unlinkat(&folder, &path.name, flags)
            .map_err(FileError::io("remove", &path.full()))?;
        entries.sync(context);
        Ok(())
    }

    /// Returns the owners that are others than those of an entry, if any are.
    fn owners(&self, stat: &Stat) -> Option<(Option<Uid>, Option<Gid>)> {
        let user = self.user.filter(|user| *user != stat.st_uid).map(Uid::from_raw);
        let group = self.group.filter(|group| *group != stat.st_gid).map(Gid::from_raw);
        (user.is_some() || group.is_some()).then_some((user, group))
    }

    /// Sets the owners that are others: not everyone may set those that an entry has already.
    fn own(&self, entry: impl AsFd, path: &Path) -> Result<(), FileError> {
        let stat = rustix::fs::fstat(&entry).map_err(FileError::io("look at", path))?;
        let Some((user, group)) = self.owners(&stat) else { return Ok(()) };
        rustix::fs::chownat(entry, "", user, group, AtFlags::EMPTY_PATH)
            .map_err(FileError::io("set the owner of", path))
    }

    /// Comes after [`own`](Self::own), which clears the set-user-ID bit.
    fn permit(&self, entry: impl AsFd, path: &Path) -> Result<(), FileError> {
        rustix::fs::fchmod(entry, Mode::from_raw_mode(self.mode))
            .map_err(FileError::io("set the mode of", path))
    }
}

/// The entries of a folder, a change of which is to last.
///
/// It is opened before the change: a folder that may not be read cannot be synced, and who found that
/// out later would have changed something and failed.
struct Entries {
    folder: File,
    path: PathBuf,
}

impl Entries {
    fn open(folder: &OwnedFd, path: &Path) -> Result<Self, FileError> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let readable = rustix::fs::openat(folder, ".", flags, Mode::empty())
            .map_err(FileError::io("open for syncing", path))?;
        Ok(Self { folder: File::from(readable), path: path.to_owned() })
    }

    /// Makes the change last. It is there whether that succeeds or not, and who is notified of it
    /// must hear of it: so a failure is said and fails nothing.
    fn sync(&self, context: &ActionContext) {
        if let Err(error) = self.folder.sync_all() {
            let path = &self.path;
            context.log(&format!("cannot sync {path:?}, so a crash may undo the change: {error}"));
        }
    }
}
