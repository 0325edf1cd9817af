//! Compares a file or a folder with its declaration, and chooses the actions.

use std::sync::Arc;

use crankcase_resources::dynamic::Foreseen;
use crankcase_resources::{Check, Context, Mode, Partial, Stale};
use crankcase_workers::{FileError, Folder, Found, group_name, user_name};
use serde_json::Value;

use crate::file::Do;
use crate::file::config::{File, FileStatePartial, Presence};
use crate::file::content::{Content, ContentFrom, foreseen};
use crate::file::diff::Shown;
use crate::file::error::EntryError;
use crate::file::in_place::is_in_place;
use crate::file::observe::{Observable, Observed, Wants, octal, require_empty};
use crate::file::rights::{Rights, require_own};
use crate::file::wanted::Wanted;

/// Compares the entry with its declaration.
pub(super) fn check(file: &File, context: &Context) -> Result<Check<File>, EntryError> {
    Wanted::forget(context);
    if file.state == Presence::Absent {
        return check_absent(file, context);
    }
    let load = |content: ContentFrom| content.load(file.empty(), context);
    let content = match file.content().map(load).transpose() {
        Err(EntryError::Unknown { aliases }) => return Ok(Check::Unknown(aliases)),
        content => content?,
    };
    let wants = Wants::new(content.as_ref().map(|content| &content.digest), context);
    let shown = Shown::new(file, context);
    let folder = open_parent(file, context)?;
    let observed =
        folder.as_ref().map(|folder| Observed::look(folder, &file.path, wants, context.stop()));
    let (check, rights) = match (&folder, observed.transpose()?.flatten()) {
        (Some(folder), Some(observed)) => {
            let rights = Rights::of(file, folder, &observed.found)?;
            let content = (content.as_ref(), shown);
            (compare((file, folder), content, rights, observed, context)?, rights)
        }
        _ => {
            if content.is_none()
                && !file.path.is_folder
                && foreseen(&file.path.full(), context).is_some()
            {
                return Err(EntryError::MadeBefore { path: file.path.full() });
            }
            let rights = Rights::of_new(file)?;
            let after = state_of_new(file, content.as_ref(), rights, wants);
            (create(file, (content.as_ref(), shown), rights).after(after).into(), rights)
        }
    };
    if matches!(check, Check::Stale(_)) {
        Wanted { rights, content }.keep(context);
    }
    Ok(check)
}

/// Opens the folder that the entry is in; none if it is still to be made by a resource before this one.
fn open_parent(file: &File, context: &Context) -> Result<Option<Folder>, EntryError> {
    match Folder::open(&file.path.parent) {
        Err(FileError::MissingFolder { .. })
            if foreseen(&file.path.parent, context) == Some(Foreseen::There) =>
        {
            Ok(None)
        }
        folder => Ok(Some(folder?)),
    }
}

/// Returns the state of an entry that is made, as far as it is known before.
fn state_of_new(
    file: &File,
    content: Option<&Content>,
    rights: Rights,
    wants: Wants,
) -> FileStatePartial {
    let mut state = FileStatePartial::new(&file.path, Presence::Exists);
    state.mode = Partial::Given(Some(Mode(rights.mode)));
    // The file system may decide what is not declared.
    state.owner =
        rights.user.map_or(Partial::Unknown, |user| Partial::Given(Some(user_name(user))));
    state.group =
        rights.group.map_or(Partial::Unknown, |group| Partial::Given(Some(group_name(group))));
    match content {
        Some(content) => wants.tell(&content.digest, &mut state),
        None if file.path.is_folder => {}
        None => wants.tell(&Content::from(Arc::from("")).digest, &mut state),
    }
    state
}

fn check_absent(file: &File, context: &Context) -> Result<Check<File>, EntryError> {
    let path = &file.path;
    let absent = FileStatePartial::new(path, Presence::Absent);
    let folder = match Folder::open(&path.parent) {
        // Nothing can be in a file either.
        Err(FileError::MissingFolder { .. } | FileError::NotAFolder { .. }) => {
            return Ok(Check::valid(absent));
        }
        folder => folder?,
    };
    Wanted { rights: Rights::none(), content: None }.keep(context);
    let wants = Wants::new(None, context);
    let Some(observed) = Observed::look(&folder, path, wants, context.stop())? else {
        let stale = clean(Stale::new(absent.clone()), (file, &folder), None)?;
        return Ok(match stale.is_as_declared() {
            true => Check::valid(absent),
            false => stale.after(absent).into(),
        });
    };
    if folder.is_mount_point(&path.name) {
        return Err(EntryError::MountPoint { path: path.full() });
    }
    if path.is_folder {
        require_empty(&folder, path)?;
    }
    let state = observed.state(path);
    let stale = Stale::new(state).differs("state", "exists", "absent");
    let stale = stopping(file, stale.act(Do::Remove { path: path.clone() })).after(absent);
    Ok(clean(stale, (file, &folder), None)?.into())
}

/// Has the program stopped that must not see how an entry changes, if there is one. An entry that is
/// made, and what was left beside one, no program has open.
fn stopping(file: &File, stale: Stale<File>) -> Stale<File> {
    match &file.stop_first {
        Some(command) => stale.shutdown(Do::StopFirst { command: command.clone() }),
        None => stale,
    }
}

/// Adds the removal of what a killed agent has left beside the file.
fn clean(
    stale: Stale<File>,
    (file, folder): (&File, &Folder),
    user: Option<u32>,
) -> Result<Stale<File>, EntryError> {
    let path = &file.path;
    if path.is_folder {
        return Ok(stale);
    }
    let Some(name) = folder.leftover(&path.name, user)? else { return Ok(stale) };
    let stale = stale.differs("leftover", &*name.to_string_lossy(), Value::Null);
    Ok(stale.act(Do::Clean { path: path.clone() }))
}

fn create(file: &File, (content, shown): (Option<&Content>, Shown), rights: Rights) -> Stale<File> {
    let mut stale = Stale::absent().differs("state", "absent", "exists");
    if let Some(content) = content {
        stale = stale.difference(shown.created(&content.digest, rights.mode));
    }
    stale = stale.differs("mode", Value::Null, octal(rights.mode));
    if let Some(user) = rights.user {
        stale = stale.differs("owner", Value::Null, user_name(user));
    }
    if let Some(group) = rights.group {
        stale = stale.differs("group", Value::Null, group_name(group));
    }
    let path = file.path.clone();
    let action = if path.is_folder { Do::CreateFolder { path } } else { Do::Create { path } };
    stale.act(action)
}

fn compare(
    (file, folder): (&File, &Folder),
    (content, shown): (Option<&Content>, Shown),
    rights: Rights,
    observed: Observed,
    context: &Context,
) -> Result<Check<File>, EntryError> {
    let (found, path) = (&observed.found, &file.path);
    let state = observed.state(path);
    let mut stale = Stale::new(state.clone());
    let mut is_replaced = false;
    if let Some(content) = content {
        let is_same = match &observed.content {
            Observable::Read(old) => content.digest.is_same(old),
            // A file that locks us out is written anew if what it gets may let us in; else that
            // would go on for ever.
            Observable::Unread | Observable::Denied(_) => false,
        };
        if rights.are_of(found)
            && let Observable::Denied(error) = observed.content
        {
            return Err(error.into());
        }
        if !is_same {
            let difference = shown.changed(&observed, &content.digest, rights.mode);
            stale = stale.difference(difference);
        }
        is_replaced = !is_same || rights.is_adopted;
    } else if rights.is_adopted {
        require_own(file, folder, found)?;
    }
    stale = differing(stale, found, rights);
    let after = |state| state_of_changed(state, content, rights, &observed);
    if let Some(content) = content.filter(|_| is_replaced) {
        let (path, stale) = (path.clone(), stopping(file, stale));
        let stale = match is_in_place(file, (folder, found), content, context)? {
            true => clean(stale.act(Do::Overwrite { path }), (file, folder), rights.user)?,
            // It also removes the temporary file that was left.
            false => stale.act(Do::Write { path }),
        };
        return Ok(stale.after(after(state)).into());
    }
    if !stale.is_as_declared() {
        stale = stopping(file, stale.act(Do::Adjust { path: path.clone() }));
    }
    let stale = clean(stale, (file, folder), rights.user)?;
    if stale.is_as_declared() {
        return Ok(Check::valid(state));
    }
    Ok(stale.after(after(state)).into())
}

/// Returns the state of an entry after it was changed, as far as it is known before.
fn state_of_changed(
    mut state: FileStatePartial,
    content: Option<&Content>,
    rights: Rights,
    observed: &Observed,
) -> FileStatePartial {
    state.mode = Partial::Given(Some(Mode(rights.mode)));
    if let (Some(user), Some(group)) = (rights.user, rights.group) {
        state.owner = Partial::Given(Some(user_name(user)));
        state.group = Partial::Given(Some(group_name(group)));
    }
    // Others may write to a file whose content is not declared.
    (state.size, state.sha256) = (Partial::Unknown, Partial::Unknown);
    if let Some(content) = content {
        observed.wants.tell(&content.digest, &mut state);
    }
    state
}

/// Adds which rights are to change.
fn differing(mut stale: Stale<File>, found: &Found, rights: Rights) -> Stale<File> {
    if rights.mode != found.mode {
        stale = stale.differs("mode", octal(found.mode), octal(rights.mode));
    }
    if let Some(user) = rights.user.filter(|user| *user != found.user) {
        stale = stale.differs("owner", user_name(found.user), user_name(user));
    }
    if let Some(group) = rights.group.filter(|group| *group != found.group) {
        stale = stale.differs("group", group_name(found.group), group_name(group));
    }
    stale
}
