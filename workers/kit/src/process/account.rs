//! As whom a command runs.

use std::ffi::OsString;

use uzers::os::unix::UserExt;
use uzers::{get_group_by_name, get_user_by_name, get_user_by_uid, get_user_groups};

use super::config::ProcessConfig;
use super::error::ProcessError;

/// The ids of a user and its groups; those of the agent where there are none.
#[derive(Debug, Default)]
pub(super) struct Account {
    pub(super) user: Option<u32>,
    pub(super) group: Option<u32>,
    /// In ascending order, as the kernel keeps them.
    pub(super) groups: Vec<u32>,
    pub(super) home: Option<OsString>,
}

impl Account {
    /// Looks up the user and the group of a config. Blocks for what knows them.
    pub(super) fn of(config: &ProcessConfig) -> Result<Self, ProcessError> {
        let unknown = |what, account: &str| ProcessError::NoAccount {
            name: config.name.clone(),
            what,
            account: account.to_owned(),
        };
        let group = match &config.group {
            Some(group) => {
                let id = group.parse().ok();
                let id = id.or_else(|| get_group_by_name(group).map(|group| group.gid()));
                Some(id.ok_or_else(|| unknown("group", group))?)
            }
            None => None,
        };
        let Some(user) = &config.user else {
            return Ok(Self { group, groups: group.into_iter().collect(), ..Self::default() });
        };
        let id: Option<u32> = user.parse().ok();
        let found = id.map_or_else(|| get_user_by_name(user), get_user_by_uid);
        // An id needs no name, but a group.
        let group = group.or_else(|| found.as_ref().map(uzers::User::primary_group_id));
        let (Some(id), Some(group)) = (id.or_else(|| found.as_ref().map(uzers::User::uid)), group)
        else {
            return Err(unknown("user", user));
        };
        let others = found.as_ref().and_then(|user| get_user_groups(user.name(), group));
        let mut groups: Vec<_> =
            others.into_iter().flatten().map(|group| group.gid()).chain([group]).collect();
        groups.sort_unstable();
        groups.dedup();
        let home = found.map(|user| user.home_dir().as_os_str().to_owned());
        Ok(Self { user: Some(id), group: Some(group), groups, home })
    }
}
