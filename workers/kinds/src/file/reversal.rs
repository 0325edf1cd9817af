//! The config that puts a file or a folder back as it is now.

use crankcase_resources::{BoxError, Context, Mode, Resource};
use crankcase_workers::{FileError, Folder};

use crate::file::config::{File, Principal};
use crate::file::observe::look;

/// The largest content that is put back, in bytes.
const LIMIT: u64 = 1024 * 1024;

/// Returns the config that declares an entry as it is now.
pub(super) fn reversal(file: &File, context: &Context) -> Result<Option<File>, BoxError> {
    let folder = match Folder::open(&file.path.parent) {
        Err(FileError::MissingFolder { .. }) => return Ok(file.absent()),
        folder => folder?,
    };
    let Some(found) = look(&folder, &file.path)? else { return Ok(file.absent()) };
    let rights = File {
        mode: Some(Mode(found.mode)),
        owner: Some(Principal::Id(found.user)),
        group: Some(Principal::Id(found.group)),
        in_place: file.in_place,
        stop_first: file.stop_first.clone(),
        // A content that was hidden when it was written is hidden when it is removed.
        diff: file.is_shown(context).filter(|_| !file.path.is_folder),
        ..File::new(file.path.clone())
    };
    if file.path.is_folder || !file.replaces() {
        return Ok(Some(rights));
    }
    let why = match folder.read(&file.path.name, LIMIT) {
        Ok(bytes) => match String::from_utf8(bytes) {
            Ok(text) => return Ok(Some(File { content: Some(text.into()), ..rights })),
            Err(_) => "its content is not UTF-8".to_owned(),
        },
        Err(error @ FileError::TooLarge { .. }) => error.to_string(),
        Err(error) => return Err(error.into()),
    };
    context.log(&why);
    Ok(None)
}
