//! The mode and the owners that a file or a folder gets.

use std::path::Path;

use crankcase_workers::{Folder, Found, group_id, user_id, user_name};

use crate::file::config::{File, Principal};
use crate::file::error::EntryError;

const NEW_FILE: u32 = 0o644;
const NEW_FOLDER: u32 = 0o755;

/// The setgid bit: new entries of a folder with this bit get the group of the folder.
const SET_GROUP: u32 = 0o2000;

/// The mode and the owners that an entry gets.
#[derive(Debug, Clone, Copy)]
pub(super) struct Rights {
    pub(super) mode: u32,
    /// The owners. `None` leaves the owner that the system chooses.
    pub(super) user: Option<u32>,
    pub(super) group: Option<u32>,
    /// Whether the entry is taken from its maker, who may still have it open.
    pub(super) is_adopted: bool,
}

impl Rights {
    /// Returns the rights of an entry that is made.
    pub(super) fn of_new(file: &File) -> Result<Self, EntryError> {
        let (user, group) = declared(file)?;
        let mode = match file.mode {
            Some(mode) => mode.0,
            None if file.path.is_folder => NEW_FOLDER | inherited(&file.path.parent),
            None => NEW_FILE,
        };
        Ok(Self { mode, user, group, is_adopted: false })
    }

    /// Returns the rights of an entry that is there. A replacement is a new file, so unchanged owners
    /// and mode must be set too.
    pub(super) fn of(file: &File, folder: &Folder, found: &Found) -> Result<Self, EntryError> {
        let (user, group) = declared(file)?;
        let is_foreign = is_foreign(file, folder, found);
        let user = match user {
            None if is_foreign && file.content().is_some() => heir(folder, found)?,
            user => user.unwrap_or(found.user),
        };
        let is_adopted = is_foreign && user != found.user;
        // Its maker has no say in who may read or write it from now on.
        let mode = if is_adopted { NEW_FILE } else { found.mode };
        Ok(Self {
            mode: file.mode.map_or(mode, |mode| mode.0),
            user: Some(user),
            group: Some(group.unwrap_or(found.group)),
            is_adopted,
        })
    }

    /// Returns whether an entry has them.
    pub(super) fn are_of(self, found: &Found) -> bool {
        let Self { mode, user, group, .. } = self;
        (mode, user, group) == (found.mode, Some(found.user), Some(found.group))
    }

    /// Returns the rights of an entry that goes; nobody asks for them.
    pub(super) fn none() -> Self {
        Self { mode: 0, user: None, group: None, is_adopted: false }
    }
}

/// Returns the setgid bit that a new folder inherits from its parent, as the kernel does it. A parent that does not
/// exist yet inherits the bit from the nearest folder above it that exists.
fn inherited(parent: &Path) -> u32 {
    let above = parent.ancestors().find_map(|folder| Folder::open(folder).ok());
    let found = above.and_then(|folder| folder.look_at_itself().ok());
    found.map_or(0, |found| found.mode & SET_GROUP)
}

/// Returns whether a file was made by somebody else where others can write, so that its maker may
/// still have it open: to give it another owner would hand that maker a way into the new owner's file.
fn is_foreign(file: &File, folder: &Folder, found: &Found) -> bool {
    !file.path.is_folder && !found.is_ours() && folder.is_shared()
}

/// Refuses to give the file of somebody else to another owner.
pub(super) fn require_own(file: &File, folder: &Folder, found: &Found) -> Result<(), EntryError> {
    if !is_foreign(file, folder, found) {
        return Ok(());
    }
    Err(EntryError::ForeignFile { path: file.path.full(), user: user_name(found.user) })
}

/// Returns the owner that a file of another user shall get where the manifest declares none.
///
/// In a folder of ours that others can write to, anybody may have made the file before the agent
/// could, so the agent becomes its owner. In a folder of another user the file's owner stays.
fn heir(folder: &Folder, found: &Found) -> Result<u32, EntryError> {
    let is_ours = folder.look_at_itself()?.is_ours();
    Ok(if is_ours { rustix::process::geteuid().as_raw() } else { found.user })
}

/// Looks the declared owners up; users and groups may have come since the last look.
fn declared(file: &File) -> Result<(Option<u32>, Option<u32>), EntryError> {
    let user = id("user", file.owner.as_ref(), user_id)?;
    Ok((user, id("group", file.group.as_ref(), group_id)?))
}

fn id(
    what: &'static str,
    declared: Option<&Principal>,
    look_up: fn(&str) -> Option<u32>,
) -> Result<Option<u32>, EntryError> {
    match declared {
        None => Ok(None),
        Some(Principal::Id(id)) => Ok(Some(*id)),
        Some(Principal::Name(name)) => {
            let no = || EntryError::NoPrincipal { what, name: name.clone() };
            look_up(name).map(Some).ok_or_else(no)
        }
    }
}
