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
        ..File::new(file.path.clone())
    };
    if file.path.is_folder || !file.replaces() {
        return Ok(Some(rights));
    }
    let why = match folder.read(&file.path.name, LIMIT).map(String::from_utf8) {
        Ok(Ok(text)) => return Ok(Some(File { content: Some(text.into()), ..rights })),
        Ok(Err(_)) => "its content is no UTF-8".to_owned(),
        Err(error) => error.to_string(),
    };
    context.log(&why);
    Ok(None)
}
