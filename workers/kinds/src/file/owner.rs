use std::os::unix::ffi::OsStrExt;

use crate::file::config::{FileConfig, Principal};
use crate::file::error::FileError;

/// The ids that are declared.
#[derive(Debug, Clone, Copy)]
pub(super) struct Owners {
    pub(super) user: Option<u32>,
    pub(super) group: Option<u32>,
}

impl Owners {
    /// Looks the names up; users and groups may have come since the last look.
    pub(super) fn resolve(config: &FileConfig) -> Result<Self, FileError> {
        let user = match &config.owner {
            None => None,
            Some(Principal::Id(id)) => Some(*id),
            Some(Principal::Name(name)) => {
                let user = uzers::get_user_by_name(name).map(|user| user.uid());
                Some(user.ok_or_else(|| no("user", name))?)
            }
        };
        let group = match &config.group {
            None => None,
            Some(Principal::Id(id)) => Some(*id),
            Some(Principal::Name(name)) => {
                let group = uzers::get_group_by_name(name).map(|group| group.gid());
                Some(group.ok_or_else(|| no("group", name))?)
            }
        };
        Ok(Self { user, group })
    }
}

fn no(what: &'static str, name: &str) -> FileError {
    FileError::NoPrincipal { what, name: name.to_owned() }
}

/// Returns a user's name, or its id if it has none.
pub(super) fn user_name(id: u32) -> String {
    let user = uzers::get_user_by_uid(id);
    user.map_or_else(|| id.to_string(), |user| lossy(user.name().as_bytes()))
}

/// Returns a group's name, or its id if it has none.
pub(super) fn group_name(id: u32) -> String {
    let group = uzers::get_group_by_gid(id);
    group.map_or_else(|| id.to_string(), |group| lossy(group.name().as_bytes()))
}

fn lossy(name: &[u8]) -> String {
    String::from_utf8_lossy(name).into_owned()
}
