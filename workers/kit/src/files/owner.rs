use std::os::unix::ffi::OsStrExt;

/// Returns a user's name, or its id if it has none.
pub fn user_name(id: u32) -> String {
    let user = uzers::get_user_by_uid(id);
    user.map_or_else(|| id.to_string(), |user| lossy(user.name().as_bytes()))
}

/// Returns a group's name, or its id if it has none.
pub fn group_name(id: u32) -> String {
    let group = uzers::get_group_by_gid(id);
    group.map_or_else(|| id.to_string(), |group| lossy(group.name().as_bytes()))
}

/// Returns the id of the user with this name, as the system knows it now.
pub fn user_id(name: &str) -> Option<u32> {
    uzers::get_user_by_name(name).map(|user| user.uid())
}

/// Returns the id of the group with this name, as the system knows it now.
pub fn group_id(name: &str) -> Option<u32> {
    uzers::get_group_by_name(name).map(|group| group.gid())
}

fn lossy(name: &[u8]) -> String {
    String::from_utf8_lossy(name).into_owned()
}
