//! What the actions of a file or folder do. Each finds the entry anew: it may have moved since the
//! check.
use std::sync::Arc;

use crankcase_resources::ActionContext;
use crankcase_workers::{Entries, EntryKind, Folder, Found, Temporary, user_name};

use crate::file::config::FileConfig;
use crate::file::content::Content;
use crate::file::error::EntryError;
use crate::file::observe::look;

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
    ) -> Result<(), EntryError> {
        let path = &self.config.path;
        let folder = Folder::open(&path.parent)?;
        let entries = folder.entries()?;
        let mut temporary = Temporary::create(&folder, &path.name)?;
        temporary.set_owners(self.user, self.group)?;
        content.write(temporary.file(), &path.full(), context.stop())?;
        temporary.set_mode(self.mode)?;
        temporary.place()?;
        sync(&entries, context);
        Ok(())
    }

    /// Creates the folder.
    pub(super) fn create_folder(&self, context: &ActionContext) -> Result<(), EntryError> {
        let path = &self.config.path;
        let folder = Folder::open(&path.parent)?;
        let entries = folder.entries()?;
        let entry = folder.create_folder(&path.name)?;
        let finished =
            entry.set_owners(self.user, self.group).and_then(|()| entry.set_mode(self.mode));
        if finished.is_err() {
            // It is our own and empty; if it cannot be removed, the next check mends it.
            folder.remove(&path.name, EntryKind::Folder).ok();
        }
        finished?;
        sync(&entries, context);
        Ok(())
    }

    /// Sets mode and owners of what exists.
    pub(super) fn adjust(&self) -> Result<(), EntryError> {
        let path = &self.config.path;
        let folder = Folder::open(&path.parent)?;
        let entry = folder.hold(&path.name)?;
        let found = entry.look()?.require(path.kind(), &path.full())?;
        // A hard link that another has put here may be to a file anywhere.
        if !path.is_folder && found.links > 1 && folder.is_shared() {
            return Err(EntryError::HardLinked { path: path.full() });
        }
        let is_other = |id: Option<u32>, old| id.is_some_and(|id| id != old);
        if is_other(self.user, found.user) {
            require_own(&folder, &self.config, &found)?;
        }
        if is_other(self.user, found.user) || is_other(self.group, found.group) {
            // Nobody gets more, not even for a moment: neither the new owners by the old mode, nor
            // the old ones by the new.
            entry.set_mode(found.mode & self.mode)?;
        }
        entry.set_owners(self.user, self.group)?;
        Ok(entry.set_mode(self.mode)?)
    }

    /// Removes the file or the empty folder.
    pub(super) fn remove(&self, context: &ActionContext) -> Result<(), EntryError> {
        let path = &self.config.path;
        let folder = Folder::open(&path.parent)?;
        if look(&folder, path)?.is_none() {
            return Ok(());
        }
        let entries = folder.entries()?;
        // The kernel refuses a folder that has been filled since the check.
        folder.remove(&path.name, path.kind())?;
        sync(&entries, context);
        Ok(())
    }

    /// Removes the temporary file that a killed agent has left.
    pub(super) fn clean(&self, context: &ActionContext) -> Result<(), EntryError> {
        let path = &self.config.path;
        let folder = Folder::open(&path.parent)?;
        let Some(name) = folder.leftover(&path.name, self.user)? else { return Ok(()) };
        let entries = folder.entries()?;
        folder.remove_leftover(name)?;
        sync(&entries, context);
        Ok(())
    }
}

/// Returns whether a file was made by somebody else where others can write, so that its maker may
/// still have it open: to give it another owner would hand that maker a way into the new owner's file.
pub(super) fn is_foreign(folder: &Folder, config: &FileConfig, found: &Found) -> bool {
    !config.path.is_folder && !found.is_ours() && folder.is_shared()
}

/// Refuses to give the file of somebody else to another owner.
pub(super) fn require_own(
    folder: &Folder,
    config: &FileConfig,
    found: &Found,
) -> Result<(), EntryError> {
    if !is_foreign(folder, config, found) {
        return Ok(());
    }
    let (path, user) = (config.path.full(), user_name(found.user));
    Err(EntryError::ForeignFile { path, user })
}

/// Syncs the change to the disk. A failure is only logged: the change is made all the same, and its
/// dependents must be notified of it.
fn sync(entries: &Entries, context: &ActionContext) {
    if let Err(error) = entries.sync() {
        let cause = std::error::Error::source(&error).map(ToString::to_string);
        let cause = cause.unwrap_or_default();
        context.log(&format!("{error}, so a crash may undo the change: {cause}"));
    }
}
