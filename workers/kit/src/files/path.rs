//! Absolute paths of files and folders, split at their last name.

use std::path::{Component, Path, PathBuf};

use super::kind::EntryKind;

/// The longest path and the longest name in it, in bytes.
const PATH_LIMIT: usize = 4095;
const NAME_LIMIT: usize = 255;

/// An absolute path without `.` and `..`, split at its last name.
///
/// A path that ends in `/` is that of a folder.
///
/// # Examples
///
/// ```
/// use crankcase_workers::EntryPath;
///
/// let path = EntryPath::parse("/etc//motd")?;
/// assert_eq!((path.parent.to_str(), path.name.as_str()), (Some("/etc"), "motd"));
/// assert!(EntryPath::parse("/etc/../motd").is_err());
/// # Ok::<(), crankcase_workers::NotAnEntry>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct EntryPath {
    /// The folder that holds the entry.
    pub parent: PathBuf,
    /// The entry's name in it.
    pub name: String,
    /// Whether the entry is a folder; else it is a file.
    pub is_folder: bool,
}

/// Why a text is no path of an entry, and what would be right.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct NotAnEntry(String);

impl EntryPath {
    /// Takes a text for a path: at most 4095 bytes, of which each name has at most 255.
    ///
    /// # Errors
    ///
    /// When the text is relative, too long or the root, or has `.`, `..` or NUL in it.
    pub fn parse(text: &str) -> Result<Self, NotAnEntry> {
        let wrong = |message: String| Err(NotAnEntry(message));
        if !text.starts_with('/') {
            return wrong(format!("{text:?} is not absolute; begin it with /"));
        }
        if text.contains('\0') {
            return wrong(format!("{text:?} contains a NUL character"));
        }
        if text.len() > PATH_LIMIT || text.split('/').any(|name| name.len() > NAME_LIMIT) {
            return wrong(format!(
                "it is too long: a path has at most {PATH_LIMIT} bytes, a name {NAME_LIMIT}"
            ));
        }
        let is_dotted = Path::new(text).components().any(|part| part == Component::ParentDir);
        if is_dotted || text.split('/').any(|name| name == ".") {
            return wrong(format!("{text:?} contains . or ..; write the path without"));
        }
        let mut names: Vec<_> = text.split('/').filter(|name| !name.is_empty()).collect();
        let Some(name) = names.pop() else {
            return wrong("the root folder is always there; name one in it".to_owned());
        };
        let parent = PathBuf::from(format!("/{}", names.join("/")));
        Ok(Self { parent, name: name.to_owned(), is_folder: text.ends_with('/') })
    }

    /// Returns the path without a slash at its end.
    pub fn full(&self) -> PathBuf {
        self.parent.join(&self.name)
    }

    /// Returns the path as a manifest writes it: a folder ends in a slash.
    pub fn declared(&self) -> String {
        let slash = if self.is_folder { "/" } else { "" };
        format!("{}{slash}", self.full().display())
    }

    /// Returns what the entry is to be: a folder or a file.
    pub fn kind(&self) -> EntryKind {
        if self.is_folder { EntryKind::Folder } else { EntryKind::File }
    }
}
