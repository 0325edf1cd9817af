//! What the actions of a file or folder do. Each finds the entry anew: it may have moved since the
//! check.
use crankcase_resources::Context;
use crankcase_workers::{Entries, EntryKind, Folder, Temporary};

use crate::file::Do;
use crate::file::config::File;
use crate::file::content::Content;
use crate::file::error::EntryError;
use crate::file::observe::look;
use crate::file::rights::{Rights, require_own};
use crate::file::validation::Validation;
use crate::file::wanted::Wanted;

/// Does what a check has asked for. Blocks for the disk, and for the validation of a new file.
pub(super) fn act(
    file: &File,
    action: &Do,
    context: &Context,
    validation: Validation,
) -> Result<(), EntryError> {
    let wanted = Wanted::recall(context)?;
    let rights = wanted.rights;
    let folder = &Folder::open(&file.path.parent)?;
    match action {
        Do::CreateFolder { .. } => create_folder(file, folder, rights, context),
        Do::Create { .. } | Do::Write { .. } => write(file, folder, &wanted, context, validation),
        Do::Overwrite { .. } => overwrite(file, folder, (rights, wanted.content.as_ref()), context),
        Do::Adjust { .. } => adjust(file, folder, rights),
        Do::Remove { .. } => remove(file, folder, context),
        Do::Clean { .. } => clean(file, folder, rights, context),
        Do::StopFirst { .. } => unreachable!("it is a command, which does nothing to the entry"),
    }
}

fn write(
    file: &File,
    folder: &Folder,
    Wanted { rights, content }: &Wanted,
    context: &Context,
    validation: Validation,
) -> Result<(), EntryError> {
    let path = &file.path;
    let entries = folder.entries()?;
    let mut temporary = Temporary::create(folder, &path.name)?;
    temporary.set_owners(rights.user, rights.group)?;
    if let Some(content) = content {
        content.write(temporary.file(), &path.full(), context.stop())?;
    }
    temporary.set_mode(rights.mode)?;
    validation.require(temporary.temporary_path())?;
    temporary.place()?;
    sync(&entries, context);
    Ok(())
}

/// Writes the file that is there.
fn overwrite(
    file: &File,
    folder: &Folder,
    (rights, content): (Rights, Option<&Content>),
    context: &Context,
) -> Result<(), EntryError> {
    let path = &file.path;
    let content = content.ok_or(EntryError::NotLookedAt)?;
    let no_journal = || EntryError::NoJournal { path: path.full() };
    let journal = context.overwrites().ok_or_else(no_journal)?;
    let mut bytes = Vec::new();
    content.write(&mut bytes, &path.full(), context.stop())?;
    let opened = folder.overwrite(&path.name)?;
    let entry = folder.hold(&path.name)?;
    let found = entry.look()?.require(path.kind(), &path.full())?;
    // Nobody gets more, not even for a moment: neither the new owners the old content, nor the old ones the new.
    if found.mode & rights.mode != found.mode {
        entry.set_mode(found.mode & rights.mode)?;
    }
    entry.set_owners(rights.user, rights.group)?;
    opened.write(&bytes, &journal)?;
    // The kernel takes some bits of the mode away when another owner is set, and when a file is written.
    if entry.look()?.mode != rights.mode {
        entry.set_mode(rights.mode)?;
    }
    Ok(())
}

fn create_folder(
    file: &File,
    folder: &Folder,
    rights: Rights,
    context: &Context,
) -> Result<(), EntryError> {
    let name = &file.path.name;
    let entries = folder.entries()?;
    let entry = folder.create_folder(name)?;
    let finished =
        entry.set_owners(rights.user, rights.group).and_then(|()| entry.set_mode(rights.mode));
    if finished.is_err() {
        // It is our own and empty; if it cannot be removed, the next check mends it.
        folder.remove(name, EntryKind::Folder).ok();
    }
    finished?;
    sync(&entries, context);
    Ok(())
}

/// Sets mode and owners of what exists.
fn adjust(file: &File, folder: &Folder, rights: Rights) -> Result<(), EntryError> {
    let path = &file.path;
    let entry = folder.hold(&path.name)?;
    let found = entry.look()?.require(path.kind(), &path.full())?;
    // A hard link that another has put here may be to a file anywhere.
    if !path.is_folder && found.links > 1 && folder.is_shared() {
        return Err(EntryError::HardLinked { path: path.full() });
    }
    let is_other = |id: Option<u32>, old| id.is_some_and(|id| id != old);
    if is_other(rights.user, found.user) {
        require_own(file, folder, &found)?;
    }
    if is_other(rights.user, found.user) || is_other(rights.group, found.group) {
        // Nobody gets more, not even for a moment: neither the new owners by the old mode, nor
        // the old ones by the new.
        entry.set_mode(found.mode & rights.mode)?;
    }
    entry.set_owners(rights.user, rights.group)?;
    Ok(entry.set_mode(rights.mode)?)
}

fn remove(file: &File, folder: &Folder, context: &Context) -> Result<(), EntryError> {
    let path = &file.path;
    if look(folder, path)?.is_none() {
        return Ok(());
    }
    let entries = folder.entries()?;
    // The kernel refuses a folder that has been filled since the check.
    folder.remove(&path.name, path.kind())?;
    sync(&entries, context);
    Ok(())
}

fn clean(
    file: &File,
    folder: &Folder,
    rights: Rights,
    context: &Context,
) -> Result<(), EntryError> {
    let Some(name) = folder.leftover(&file.path.name, rights.user)? else { return Ok(()) };
    let entries = folder.entries()?;
    folder.remove_leftover(name)?;
    sync(&entries, context);
    Ok(())
}

/// Syncs the change to the disk. A failure is only logged: the change is made all the same, and its
/// dependents must be notified of it.
fn sync(entries: &Entries, context: &Context) {
    if let Err(error) = entries.sync() {
        let cause = std::error::Error::source(&error).map(ToString::to_string);
        let cause = cause.unwrap_or_default();
        context.log(&format!("{error}, so a crash may undo the change: {cause}"));
    }
}
