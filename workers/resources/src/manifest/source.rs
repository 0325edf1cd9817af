use std::fs;
use std::io::ErrorKind;
use std::ops::Range;
use std::path::{Path, PathBuf};

use crankcase_workers::{FileError, is_unprintable, open_file, read_file};

use crate::declaration::Place;
use crate::manifest::problem::{Problems, quoted};

/// What says at the begin of a text how it is written; it is no part of it.
pub(crate) const BYTE_ORDER_MARK: char = '\u{feff}';
/// How large one input may be, in bytes.
pub(crate) const MAX_BYTES: u64 = 16 * 1024 * 1024;
/// How long a line may be that is shown under its message, in bytes.
const MAX_SHOWN: usize = 160;
/// How many files a folder or a call may name.
const MAX_FILES: usize = 10_000;

/// The text of one file, and where its lines begin.
#[derive(Debug)]
pub(crate) struct Source {
    path: PathBuf,
    text: String,
    lines: Vec<usize>,
}

impl Source {
    pub(crate) fn new(path: PathBuf, text: String) -> Self {
        let ends = text.bytes().enumerate().filter(|(_, byte)| *byte == b'\n');
        let lines = std::iter::once(0).chain(ends.map(|(offset, _)| offset + 1)).collect();
        Self { path, text, lines }
    }

    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    /// Returns the place of a byte.
    pub(crate) fn place(&self, offset: usize) -> Place {
        let line = self.line_index(offset);
        let start = self.lines[line];
        let before = self.text.get(start..offset).unwrap_or_default();
        Place { file: self.path.clone(), line: line + 1, column: before.chars().count() + 1 }
    }

    /// Returns the line that a byte is on, without its end; none if it is long or unprintable.
    pub(crate) fn line_at(&self, offset: usize) -> Option<&str> {
        let line = self.line_index(offset);
        let end = self.lines.get(line + 1).copied().unwrap_or(self.text.len());
        if end - self.lines[line] > MAX_SHOWN {
            return None;
        }
        let text = self.text.get(self.lines[line]..end)?.trim_end();
        let shows = text.chars().all(|character| !is_unprintable(character) || character == '\t');
        (shows && !text.is_empty()).then_some(text)
    }

    /// Finds the byte in the file of a byte in a scalar's decoded text.
    ///
    /// What cannot be found (an escape, a folded line) is taken as the scalar's start.
    pub(crate) fn locate(&self, scalar: &Range<usize>, decoded: &str, offset: usize) -> usize {
        let raw = self.text.get(scalar.clone()).unwrap_or_default();
        if !decoded.contains('\n')
            && let Some(start) = raw.find(decoded)
        {
            return scalar.start + start + offset;
        }
        let before = decoded.get(..offset).unwrap_or_default();
        let start = before.rfind('\n').map_or(0, |end| end + 1);
        let line = decoded[start..].lines().next().unwrap_or_default();
        match raw.find(line) {
            Some(found) if !line.is_empty() => scalar.start + found + (offset - start),
            _ => scalar.start,
        }
    }

    fn line_index(&self, offset: usize) -> usize {
        self.lines.partition_point(|start| *start <= offset).saturating_sub(1)
    }
}

/// Lists the files behind some paths: a file is itself, a folder is its manifests in name order.
pub(crate) fn list(paths: &[PathBuf], problems: &mut Problems) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for path in paths {
        if !path.is_dir() {
            files.push(path.clone());
            continue;
        }
        match list_folder(path) {
            Ok(found) if found.is_empty() => {
                problems.of_file(path, "the folder holds no *.yaml, *.yml or *.json file");
            }
            Ok(found) => files.extend(found),
            Err(err) => {
                problems.of_file(path, format_args!("cannot list the folder: {}", reason(&err)));
            }
        }
    }
    if paths.is_empty() {
        problems.note("no manifest was named");
    }
    if files.len() > MAX_FILES {
        problems.note(format_args!("there are more than {MAX_FILES} files"));
        files.clear();
    }
    files
}

fn list_folder(folder: &Path) -> std::io::Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        if entry.file_name().as_encoded_bytes().starts_with(b".") {
            // Editors keep copies and locks under such names, also of manifests.
            continue;
        }
        let path = entry.path();
        let extension = path.extension().and_then(|extension| extension.to_str());
        if matches!(extension, Some("yaml" | "yml" | "json")) && !path.is_dir() {
            files.push(path);
        }
        if files.len() > MAX_FILES {
            break;
        }
    }
    files.sort();
    Ok(files)
}

/// Reads one file, within the bounds.
pub(crate) fn read(path: &Path, problems: &mut Problems) -> Option<Source> {
    match read_bytes(path) {
        Ok(bytes) => decode(path, bytes, problems),
        Err(error) => {
            problems.of_file(path, error);
            None
        }
    }
}

/// Takes the bytes of a file as text.
pub(crate) fn decode(path: &Path, bytes: Vec<u8>, problems: &mut Problems) -> Option<Source> {
    match String::from_utf8(bytes) {
        Ok(mut text) => {
            if text.starts_with(BYTE_ORDER_MARK) {
                text.remove(0);
            }
            Some(Source::new(path.to_owned(), text))
        }
        Err(err) => {
            let valid = err.utf8_error().valid_up_to();
            let start = String::from_utf8_lossy(&err.as_bytes()[..valid]).into_owned();
            let source = Source::new(path.to_owned(), start);
            problems.at(&source, valid, format_args!("not UTF-8 at byte {valid}"));
            None
        }
    }
}

/// Why a file cannot be read.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub(crate) struct Unreadable {
    message: String,
    /// Whether there is no such file.
    pub(crate) is_missing: bool,
}

/// Reads a regular file, within the bounds.
pub(crate) fn read_bytes(path: &Path) -> Result<Vec<u8>, Unreadable> {
    Ok(read_file(path, MAX_BYTES)?)
}

/// Looks whether a regular file can be read.
pub(crate) fn probe(path: &Path) -> Result<(), Unreadable> {
    open_file(path)?;
    Ok(())
}

impl From<FileError> for Unreadable {
    fn from(error: FileError) -> Self {
        let is_missing = error.is_missing();
        let message = match error {
            FileError::WrongKind { .. } => "not a regular file".to_owned(),
            FileError::TooLarge { limit, .. } => {
                format!("the file is larger than 16 MiB ({limit} bytes)")
            }
            FileError::Io { source, .. } => format!("cannot read the file: {}", reason(&source)),
            other => other.to_string(),
        };
        Self { message, is_missing }
    }
}

/// Says an I/O error as other messages are said.
fn reason(err: &std::io::Error) -> String {
    match err.kind() {
        ErrorKind::NotFound => "it does not exist".to_owned(),
        ErrorKind::PermissionDenied => "permission denied".to_owned(),
        _ => err.to_string(),
    }
}

/// Returns whether a name can be installed in an engine: `^[A-Za-z][A-Za-z0-9_.-]*$`.
pub(crate) fn is_name(name: &str) -> bool {
    name.len() <= 255
        && name.starts_with(|first: char| first.is_ascii_alphabetic())
        && name.chars().all(|next| next.is_ascii_alphanumeric() || "_.-".contains(next))
}

/// Says what a name must look like.
pub(crate) fn bad_name(what: &str, name: &str) -> String {
    format!(
        "{} is not a {what}: it begins with a letter, goes on with letters, digits, \"_\", \".\" \
         or \"-\", and has at most 255 characters",
        quoted(name)
    )
}
