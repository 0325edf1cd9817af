//! What a look finds of a file or a folder, and of its content only as much as is needed.

use std::ffi::OsStr;

use crankcase_engine::Stop;
use crankcase_resources::{Context, Mode, Partial};
use crankcase_workers::{EntryPath, FileError, Folder, Found, group_name, user_name};

use crate::file::config::{FileStatePartial, Presence};
use crate::file::content::{Digest, KEPT};
use crate::file::error::EntryError;

/// How many entries of a folder an error names.
const NAMED: usize = 3;

/// Which of the costly attributes a look is for.
#[derive(Debug, Clone, Copy)]
pub(super) struct Wants {
    /// The size of the declared content in bytes, if one is declared.
    content: Option<u64>,
    size: bool,
    sha256: bool,
}

impl Wants {
    /// Returns what is needed to compare with a content and to tell dependents what they ask for.
    pub(super) fn new(content: Option<&Digest>, context: &Context) -> Self {
        let content = content.map(|digest| digest.size);
        Self { content, size: context.wants("size"), sha256: context.wants("sha256") }
    }

    /// Adds to a state what dependents ask for of a content.
    pub(super) fn tell(self, digest: &Digest, state: &mut FileStatePartial) {
        if self.content.is_some() || self.size {
            state.size = Partial::Given(Some(digest.size));
        }
        if self.content.is_some() || self.sha256 {
            state.sha256 = Partial::Given(Some(digest.hex()));
        }
    }

    /// Returns how many bytes of a file are worth reading to its end; `None` for none.
    fn limit(self, size: u64) -> Option<u64> {
        match self.content {
            // A file of another size is another one, whatever is in it: it is read to show the
            // difference, if that can be shown at all. Some that the kernel makes up say that they
            // are empty.
            Some(content) if content != size => (size <= KEPT).then_some(KEPT),
            Some(content) => Some(content.max(KEPT)),
            None => self.sha256.then_some(u64::MAX),
        }
    }
}

/// A file or folder as it is.
#[derive(Debug)]
pub(super) struct Observed {
    pub(super) found: Found,
    pub(super) content: Observable,
    pub(super) wants: Wants,
}

/// What is known of a file's content.
#[derive(Debug)]
pub(super) enum Observable {
    /// It was not read, for nobody has to know, or its size says enough; a folder has none.
    Unread,
    /// It may not be read.
    Denied(FileError),
    Read(Digest),
}

/// Returns what stands there, or `None` if nothing does.
///
/// Anything else than a file, or a folder where one is declared, is an error.
pub(super) fn look(folder: &Folder, path: &EntryPath) -> Result<Option<Found>, EntryError> {
    let Some(found) = folder.look(&path.name)? else { return Ok(None) };
    Ok(Some(found.require(path.kind(), &path.full())?))
}

impl Observed {
    /// Looks at the entry.
    pub(super) fn look(
        folder: &Folder,
        path: &EntryPath,
        wants: Wants,
        stop: &Stop,
    ) -> Result<Option<Self>, EntryError> {
        let Some(mut found) = look(folder, path)? else { return Ok(None) };
        let mut content = Observable::Unread;
        if !path.is_folder && (wants.content.is_some() || wants.sha256) {
            match folder.open_file(&path.name) {
                Ok((file, opened)) => {
                    found = opened;
                    if let Some(limit) = wants.limit(found.size)
                        && let Some(digest) = Digest::read(file, limit, (&path.full(), stop))?
                    {
                        content = Observable::Read(digest);
                    }
                }
                Err(error) if error.is_denied() => content = Observable::Denied(error),
                Err(error) => return Err(error.into()),
            }
        }
        Ok(Some(Self { found, content, wants }))
    }

    /// Returns what dependents see. It holds no more than the resource keeps or they ask for: who
    /// appends to a file whose content is not declared does not concern them.
    pub(super) fn state(&self, path: &EntryPath) -> FileStatePartial {
        let mut state = FileStatePartial::new(path, Presence::Exists);
        state.mode = Partial::Given(Some(Mode(self.found.mode)));
        state.owner = Partial::Given(Some(user_name(self.found.user)));
        state.group = Partial::Given(Some(group_name(self.found.group)));
        if path.is_folder {
            return state;
        }
        let mut size = self.found.size;
        match &self.content {
            Observable::Unread if !self.wants.sha256 => {}
            Observable::Unread | Observable::Denied(_) => state.sha256 = Partial::Given(None),
            Observable::Read(digest) => {
                state.sha256 = Partial::Given(Some(digest.hex()));
                size = digest.size;
            }
        }
        if self.wants.content.is_some() || self.wants.size {
            state.size = Partial::Given(Some(size));
        }
        state
    }
}

/// Returns a mode as a manifest writes it.
pub(super) fn octal(mode: u32) -> String {
    format!("{mode:04o}")
}

/// Refuses a folder that is not empty.
pub(super) fn require_empty(folder: &Folder, path: &EntryPath) -> Result<(), EntryError> {
    let names = folder.child(&path.name)?.names(NAMED + 1)?;
    if names.is_empty() {
        return Ok(());
    }
    let quoted = |name: &OsStr| format!("{:?}", name.to_string_lossy());
    let mut quoted: Vec<_> = names.iter().map(|name| quoted(name)).collect();
    quoted.sort();
    let more = if quoted.len() > NAMED { " and more" } else { "" };
    quoted.truncate(NAMED);
    let entries = format!("{}{more}", quoted.join(", "));
    Err(EntryError::NotEmpty { path: path.full(), entries })
}
