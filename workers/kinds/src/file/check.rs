use std::sync::Arc;

use crankcase_resources::{Action, Check, CheckContext, Description, Stale, Unfinished};
use serde_json::{Value, json};

use crate::blocking::blocking;
use crate::file::change::Change;
use crate::file::config::{FileConfig, Presence};
use crate::file::content::Content;
use crate::file::error::FileError;
use crate::file::observe::{Observed, octal, require_empty};
use crate::file::owner::{Owners, group_name, user_name};
use crate::file::{diff, folder};

const NEW_FILE: u32 = 0o644;
const NEW_FOLDER: u32 = 0o755;

/// Compares the entry with its declaration.
pub(super) fn check(config: &Arc<FileConfig>, context: &CheckContext) -> Result<Check, FileError> {
    if config.state == Presence::Absent {
        return check_absent(config, context);
    }
    let content = match config.content().map(|content| content.load(context)).transpose() {
        Err(FileError::Unknown { aliases }) => return Ok(Check::Unknown(aliases)),
        content => content?,
    };
    let owners = Owners::resolve(config)?;
    let folder = folder::open(&config.path.parent)?;
    match Observed::look(&folder, &config.path, &context.stop)? {
        None => Ok(Check::Stale(create(config, content, owners))),
        Some(observed) => compare(config, content, owners, observed),
    }
}

fn check_absent(config: &Arc<FileConfig>, context: &CheckContext) -> Result<Check, FileError> {
    let path = &config.path;
    let valid = Ok(Check::Valid(json!({"path": path.declared(), "state": "absent"})));
    let folder = match folder::open(&path.parent) {
        Err(FileError::MissingFolder { .. }) => return valid,
        folder => folder?,
    };
    let Some(observed) = Observed::look(&folder, path, &context.stop)? else { return valid };
    if path.is_folder {
        require_empty(&folder, path)?;
    }
    let change = Change { config: Arc::clone(config), mode: 0, user: None, group: None };
    let description = describe("remove", config).changing("state");
    let action = Action::new(description, |context| async move {
        blocking(move || change.remove(&context)).await.map_err(Into::into)
    });
    let stale = Stale::new(Some(observed.state(path)));
    Ok(Check::Stale(stale.differs("state", "exists", "absent").action(action)))
}

fn create(config: &Arc<FileConfig>, content: Option<Content>, owners: Owners) -> Stale {
    let is_folder = config.path.is_folder;
    let mode = config.mode.map_or(if is_folder { NEW_FOLDER } else { NEW_FILE }, |mode| mode.0);
    let mut stale = Stale::new(None).differs("state", "absent", "exists");
    if let Some(content) = &content {
        stale = stale.difference(diff::content(None, &content.digest));
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
            Some(FileError::Stopped) => Unfinished::Interrupted,
            _ => Unfinished::Failed(err),
        })
    })
}

fn compare(
    config: &Arc<FileConfig>,
    content: Option<Content>,
    owners: Owners,
    observed: Observed,
) -> Result<Check, FileError> {
    let state = observed.state(&config.path);
    let mut stale = Stale::new(None);
    let mode = config.mode.map_or(observed.mode, |mode| mode.0);
    if mode != observed.mode {
        stale = stale.differs("mode", octal(observed.mode), octal(mode));
    }
    if let Some(user) = owners.user.filter(|user| *user != observed.user) {
        stale = stale.differs("owner", user_name(observed.user), user_name(user));
    }
    if let Some(group) = owners.group.filter(|group| *group != observed.group) {
        stale = stale.differs("group", group_name(observed.group), group_name(group));
    }
    let mut new_content = None;
    match (content, observed.digest) {
        (Some(content), Some(Ok(old))) if !content.digest.is_same(&old) => {
            stale.differences.insert(0, diff::content(Some(&old), &content.digest));
            new_content = Some(content);
        }
        // A file that locks us out is written anew if what it gets may let us in; else that would
        // go on for ever.
        (Some(content), Some(Err(_))) if !stale.differences.is_empty() => {
            stale.differences.insert(0, diff::unreadable(&content.digest));
            new_content = Some(content);
        }
        (Some(_), Some(Err(error))) => return Err(error),
        _ => {}
    }
    if stale.differences.is_empty() {
        return Ok(Check::Valid(state));
    }
    // What replaces the file is a new one, so it is given also what stays the same.
    let (user, group) =
        (owners.user.unwrap_or(observed.user), owners.group.unwrap_or(observed.group));
    let change = Change { config: Arc::clone(config), mode, user: Some(user), group: Some(group) };
    let mut description = describe(if new_content.is_some() { "write" } else { "adjust" }, config);
    description.changes =
        stale.differences.iter().map(|difference| difference.attribute.clone()).collect();
    let action = match new_content {
        Some(content) => write(description, change, content),
        None => Action::new(description, |_| async move {
            blocking(move || change.adjust()).await.map_err(Into::into)
        }),
    };
    stale.current = Some(state);
    Ok(Check::Stale(stale.action(action)))
}

fn describe(name: &str, config: &FileConfig) -> Description {
    Description::new(name).with("path", config.path.declared())
}
