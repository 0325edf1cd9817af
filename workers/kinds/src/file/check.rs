use std::sync::Arc;

use crankcase_resources::{Action, Check, CheckContext, Description, Stale, Unfinished, blocking};
use crankcase_workers::{FileError, Folder, Found, group_name, user_name};
use serde_json::{Value, json};

use crate::file::change::{Change, is_foreign, require_own};
use crate::file::config::{FileConfig, Presence};
use crate::file::content::Content;
use crate::file::diff;
use crate::file::error::EntryError;
use crate::file::observe::{Observable, Observed, Wants, octal, require_empty};
use crate::file::owner::Owners;

const NEW_FILE: u32 = 0o644;
const NEW_FOLDER: u32 = 0o755;

/// Compares the entry with its declaration.
pub(super) fn check(config: &Arc<FileConfig>, context: &CheckContext) -> Result<Check, EntryError> {
    if config.state == Presence::Absent {
        return check_absent(config, context);
    }
    let content = match config.content().map(|content| content.load(context)).transpose() {
        Err(EntryError::Unknown { aliases }) => return Ok(Check::Unknown(aliases)),
        content => content?,
    };
    let owners = Owners::resolve(config)?;
    let folder = Folder::open(&config.path.parent)?;
    let wants = Wants::new(content.as_ref().map(|content| &content.digest), context);
    match Observed::look(&folder, &config.path, (wants, &context.stop))? {
        None => Ok(Check::Stale(create(config, content, owners))),
        Some(observed) => compare((config, &folder), content, owners, observed),
    }
}

fn check_absent(config: &Arc<FileConfig>, context: &CheckContext) -> Result<Check, EntryError> {
    let path = &config.path;
    let absent = json!({"path": path.declared(), "state": "absent"});
    let folder = match Folder::open(&path.parent) {
        Err(FileError::MissingFolder { .. }) => return Ok(Check::Valid(absent)),
        folder => folder?,
    };
    let change = Change { config: Arc::clone(config), mode: 0, user: None, group: None };
    let wants = Wants::new(None, context);
    let mut stale = Stale::new(Some(absent));
    if let Some(observed) = Observed::look(&folder, path, (wants, &context.stop))? {
        if path.is_folder {
            require_empty(&folder, path)?;
        }
        let (change, description) = (change.clone(), describe("remove", config).changing("state"));
        let action = Action::new(description, |context| async move {
            blocking(move || change.remove(&context)).await.map_err(Into::into)
        });
        stale = Stale::new(Some(observed.state(path)));
        stale = stale.differs("state", "exists", "absent").action(action);
    }
    judged(clean(stale, &folder, change)?)
}

/// Adds the removal of what a killed agent has left beside the file.
fn clean(stale: Stale, folder: &Folder, change: Change) -> Result<Stale, EntryError> {
    let path = &change.config.path;
    if path.is_folder {
        return Ok(stale);
    }
    let Some(name) = folder.leftover(&path.name, change.user)? else { return Ok(stale) };
    let description = describe("clean", &change.config).changing("leftover");
    let action = Action::new(description, |context| async move {
        blocking(move || change.clean(&context)).await.map_err(Into::into)
    });
    let name = name.to_string_lossy().into_owned();
    Ok(stale.differs("leftover", name, Value::Null).action(action))
}

/// Takes what does not differ for valid.
fn judged(mut stale: Stale) -> Result<Check, EntryError> {
    if stale.differences.is_empty() {
        return Ok(Check::Valid(stale.current.take().unwrap_or_default()));
    }
    Ok(Check::Stale(stale))
}

fn create(config: &Arc<FileConfig>, content: Option<Content>, owners: Owners) -> Stale {
    let is_folder = config.path.is_folder;
    let mode = config.mode.map_or(if is_folder { NEW_FOLDER } else { NEW_FILE }, |mode| mode.0);
    let mut stale = Stale::new(None).differs("state", "absent", "exists");
    if let Some(content) = &content {
        stale = stale.difference(diff::created(&content.digest));
    }
    stale = stale.differs("mode", Value::Null, octal(mode));
    if let Some(user) = owners.user {
        stale = stale.differs("owner", Value::Null, user_name(user));
    }
    if let Some(group) = owners.group {
        stale = stale.differs("group", Value::Null, group_name(group));
    }
    let (user, group) = (owners.user, owners.group);
    let change = Change { config: Arc::clone(config), mode, user, group };
    let name = if is_folder { "create_folder" } else { "create" };
    let mut description = describe(name, config);
    description.changes =
        stale.differences.iter().map(|difference| difference.attribute.clone()).collect();
    let action = if is_folder {
        Action::new(description, |context| async move {
            blocking(move || change.create_folder(&context)).await.map_err(Into::into)
        })
    } else {
        write(description, change, content.unwrap_or_else(|| Content::from("")))
    };
    stale.action(action)
}

fn write(description: Description, change: Change, content: Content) -> Action {
    Action::new(description, |context| async move {
        let written = blocking(move || change.write(&content, &context)).await;
        written.map_err(|err| match err.downcast_ref() {
            Some(EntryError::Stopped) => Unfinished::Interrupted,
            _ => Unfinished::Failed(err),
        })
    })
}

fn compare(
    (config, folder): (&Arc<FileConfig>, &Folder),
    content: Option<Content>,
    owners: Owners,
    observed: Observed,
) -> Result<Check, EntryError> {
    let found = &observed.found;
    let is_foreign = is_foreign(folder, config, found);
    let user = match owners.user {
        None if is_foreign && content.is_some() => heir(folder, found)?,
        user => user.unwrap_or(found.user),
    };
    let is_adopted = is_foreign && user != found.user;
    // What replaces the file is a new one, so it is given also what stays the same.
    let (user, group) = (Some(user), Some(owners.group.unwrap_or(found.group)));
    let mode = config.mode.map_or(found.mode, |mode| mode.0);
    let change = Change { config: Arc::clone(config), mode, user, group };
    let mut stale = rights(Stale::new(Some(observed.state(&config.path))), found, &change);
    let Some(content) = content else {
        if is_adopted {
            require_own(folder, config, found)?;
        }
        return judged(mend(stale, folder, change, None)?);
    };
    let is_other = match &observed.content {
        Observable::Read(old) => !content.digest.is_same(old),
        // A file that locks us out is written anew if what it gets may let us in; else that would
        // go on for ever.
        Observable::Unread | Observable::Denied(_) => true,
    };
    if stale.differences.is_empty()
        && let Observable::Denied(error) = observed.content
    {
        return Err(error.into());
    }
    if is_other {
        stale.differences.insert(0, diff::changed(&observed, &content.digest));
    }
    let new_content = (is_other || is_adopted).then_some(content);
    judged(mend(stale, folder, change, new_content)?)
}

/// Adds which rights are to change.
fn rights(mut stale: Stale, found: &Found, change: &Change) -> Stale {
    if change.mode != found.mode {
        stale = stale.differs("mode", octal(found.mode), octal(change.mode));
    }
    if let Some(user) = change.user.filter(|user| *user != found.user) {
        stale = stale.differs("owner", user_name(found.user), user_name(user));
    }
    if let Some(group) = change.group.filter(|group| *group != found.group) {
        stale = stale.differs("group", group_name(found.group), group_name(group));
    }
    stale
}

/// Returns the owner that a file of another user shall get where the manifest declares none.
///
/// In a folder of ours that others can write to, anybody may have made the file before the agent
/// could, so the agent becomes its owner. In a folder of another user the file's owner stays.
fn heir(folder: &Folder, found: &Found) -> Result<u32, EntryError> {
    let is_ours = folder.look_at_itself()?.is_ours();
    Ok(if is_ours { rustix::process::geteuid().as_raw() } else { found.user })
}

/// Adds what makes an entry as declared.
fn mend(
    stale: Stale,
    folder: &Folder,
    change: Change,
    new_content: Option<Content>,
) -> Result<Stale, EntryError> {
    let mut description =
        describe(if new_content.is_some() { "write" } else { "adjust" }, &change.config);
    description.changes =
        stale.differences.iter().map(|difference| difference.attribute.clone()).collect();
    match new_content {
        // It removes what was left as well.
        Some(content) => Ok(stale.action(write(description, change, content))),
        None if stale.differences.is_empty() => clean(stale, folder, change),
        None => {
            let adjusting = change.clone();
            let action = Action::new(description, |_| async move {
                blocking(move || adjusting.adjust()).await.map_err(Into::into)
            });
            clean(stale.action(action), folder, change)
        }
    }
}

fn describe(name: &str, config: &FileConfig) -> Description {
    Description::new(name).with("path", config.path.declared())
}
