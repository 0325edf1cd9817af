//! Whether a file is written in place, and not replaced.

use crankcase_resources::Context;
use crankcase_workers::{FileError, Folder, Found, OVERWRITE_LIMIT};

use crate::file::config::{File, InPlace};
use crate::file::content::Content;
use crate::file::error::EntryError;

/// Returns whether a new content is written into the file that is there.
///
/// # Errors
///
/// When the content can be put there in no way that is allowed.
pub(super) fn is_in_place(
    file: &File,
    (folder, found): (&Folder, &Found),
    content: &Content,
    context: &Context,
) -> Result<bool, EntryError> {
    let path = file.path.full();
    match (file.in_place, folder.only_in_place(&file.path.name)) {
        (InPlace::Auto | InPlace::Never, None) => return Ok(false),
        (InPlace::Never, Some(why)) => return Err(EntryError::NotReplaced { path, why }),
        (InPlace::Auto, Some(why)) if file.validate.is_some() => {
            return Err(EntryError::NoNewFile { path, why });
        }
        (InPlace::Auto, Some(_)) | (InPlace::Always, _) => {}
    }
    folder.require_closed()?;
    if found.size.max(content.digest.size) > OVERWRITE_LIMIT {
        return Err(FileError::TooLarge { path, limit: OVERWRITE_LIMIT }.into());
    }
    match context.overwrites() {
        Some(_) => Ok(true),
        None => Err(EntryError::NoJournal { path }),
    }
}
