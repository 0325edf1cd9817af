use crankcase_workers::{group_id, user_id};

use crate::file::config::{FileConfig, Principal};
use crate::file::error::EntryError;

/// The ids that are declared.
#[derive(Debug, Clone, Copy)]
pub(super) struct Owners {
    pub(super) user: Option<u32>,
    pub(super) group: Option<u32>,
}

impl Owners {
    /// Looks the names up; users and groups may have come since the last look.
    pub(super) fn resolve(config: &FileConfig) -> Result<Self, EntryError> {
        Ok(Self {
            user: id("user", config.owner.as_ref(), user_id)?,
            group: id("group", config.group.as_ref(), group_id)?,
        })
    }
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
