//! The names and the ids of users and groups, as the system knows them.

use std::collections::HashMap;
use std::os::unix::ffi::OsStrExt;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

/// How long a name of an id is taken for right. It is only shown, and to look it up takes longer than
/// to look at a file.
const FRESH: Duration = Duration::from_secs(1);

/// How many names are kept.
const KEPT: usize = 1_000;

/// The names that were looked up in the last second.
type Names = Mutex<Option<(Instant, HashMap<u32, String>)>>;

/// Returns a user's name, or its id if it has none, as it was at most a second ago.
pub fn user_name(id: u32) -> String {
    static USERS: Names = Mutex::new(None);
    recent(&USERS, id, |id| {
        let user = uzers::get_user_by_uid(id);
        user.map_or_else(|| id.to_string(), |user| lossy(user.name().as_bytes()))
    })
}

/// Returns a group's name, or its id if it has none, as it was at most a second ago.
pub fn group_name(id: u32) -> String {
    static GROUPS: Names = Mutex::new(None);
    recent(&GROUPS, id, |id| {
        let group = uzers::get_group_by_gid(id);
        group.map_or_else(|| id.to_string(), |group| lossy(group.name().as_bytes()))
    })
}

/// Returns the name that was looked up in the last second, or looks it up.
fn recent(names: &Names, id: u32, look_up: impl FnOnce(u32) -> String) -> String {
    let is_fresh =
        |since: &Instant, names: &HashMap<_, _>| since.elapsed() < FRESH && names.len() < KEPT;
    if let Some((since, known)) = &*names.lock()
        && is_fresh(since, known)
        && let Some(name) = known.get(&id)
    {
        return name.clone();
    }
    let name = look_up(id);
    let mut names = names.lock();
    match &mut *names {
        Some((since, known)) if is_fresh(since, known) => {
            known.insert(id, name.clone());
        }
        _ => *names = Some((Instant::now(), HashMap::from([(id, name.clone())]))),
    }
    name
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
