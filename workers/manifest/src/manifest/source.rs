//! The files of a manifest: their lists, their texts, and the rule for names in them.

use std::fs::{self, File};
use std::io::{ErrorKind, Read};
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};

use crankcase_workers::{FileError, open_file, read_file};

use crate::manifest::bounds::{Bounds, MAX_BYTES};
use crate::manifest::lines::Source;
use crate::manifest::problem::{Problems, quoted};

/// The mark of the encoding at the beginning of a text. It is no part of the text.
pub(crate) const BYTE_ORDER_MARK: char = '\u{feff}';

/// How many files a folder or a call may name.
const MAX_FILES: usize = 10_000;

/// Lists the files behind some paths: a file is itself, a folder is its manifests in name order.
pub(crate) fn list(paths: &[PathBuf], problems: &mut Problems) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for path in paths {
        if is_stdin(path) || !path.is_dir() {
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
        let is_manifest = matches!(extension, Some("yaml" | "yml" | "json"));
        if is_manifest && !is_automatic(&path) && !path.is_dir() {
            files.push(path);
        }
        if files.len() > MAX_FILES {
            break;
        }
    }
    files.sort();
    Ok(files)
}

/// Returns the files of variables in a folder that are read without being named: `vars.auto.yaml`
/// and `vars.*.auto.yaml`, in the order of their names. A folder that cannot be listed has none.
pub(crate) fn automatic_vars(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let paths = entries.take(MAX_FILES).map(|entry| entry.path());
    let mut files: Vec<_> = paths.filter(|path| is_automatic(path) && path.is_file()).collect();
    files.sort();
    files
}

fn is_automatic(path: &Path) -> bool {
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    name.starts_with("vars.") && name.ends_with(".auto.yaml") || name == "vars.auto.yaml"
}

/// Reads one file of a manifest, within the manifest's bounds.
pub(crate) fn read(path: &Path, bounds: &mut Bounds, problems: &mut Problems) -> Option<Source> {
    take(path, read_bytes(path), bounds, problems)
}

/// Takes the bytes of a file that were read, within the manifest's bounds.
pub(crate) fn take(
    path: &Path,
    bytes: Result<Vec<u8>, Unreadable>,
    bounds: &mut Bounds,
    problems: &mut Problems,
) -> Option<Source> {
    let bytes = bytes.and_then(|bytes| {
        bounds.file(bytes.len()).map_err(str::to_owned)?;
        Ok(bytes)
    });
    match bytes {
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

impl From<String> for Unreadable {
    fn from(message: String) -> Self {
        Self { message, is_missing: false }
    }
}

/// Reads a regular file, of at most as many bytes as a manifest.
pub(crate) fn read_bytes(path: &Path) -> Result<Vec<u8>, Unreadable> {
    Ok(read_file(path, MAX_BYTES)?)
}

/// Looks whether a regular file can be read.
pub(crate) fn probe(path: &Path) -> Result<(), Unreadable> {
    open_file(path)?;
    Ok(())
}

/// A manifest that can be read only once: standard input, or a pipe with a name.
#[derive(Debug)]
pub(crate) struct Pipe<'a> {
    path: &'a Path,
}

impl<'a> Pipe<'a> {
    /// Returns the pipe behind a path; none if something else is there.
    pub(crate) fn at(path: &'a Path) -> Option<Self> {
        let is_fifo = || fs::metadata(path).is_ok_and(|found| found.file_type().is_fifo());
        (is_stdin(path) || is_fifo()).then_some(Self { path })
    }

    /// Reads it to its end, within the manifest's bounds; waits for its writers.
    pub(crate) fn read(&self, bounds: &mut Bounds, problems: &mut Problems) -> Option<Source> {
        let bytes = self.read_bounded().map_err(Unreadable::from);
        take(&self.name(), bytes, bounds, problems)
    }

    fn read_bounded(&self) -> Result<Vec<u8>, FileError> {
        let mut bytes = Vec::new();
        let mut read = |from: &mut dyn Read| from.take(MAX_BYTES + 1).read_to_end(&mut bytes);
        let read = if is_stdin(self.path) {
            read(&mut std::io::stdin().lock())
        } else {
            File::open(self.path).and_then(|mut file| read(&mut file))
        };
        read.map_err(FileError::io("read", self.path))?;
        if bytes.len() as u64 > MAX_BYTES {
            return Err(FileError::TooLarge { path: self.path.to_owned(), limit: MAX_BYTES });
        }
        Ok(bytes)
    }

    /// Returns the name of the pipe in messages. The name is in no folder, so relative paths in the
    /// manifest start at the working directory.
    fn name(&self) -> PathBuf {
        let name = self.path.file_name().filter(|_| !is_stdin(self.path));
        let name = name.map_or("stdin".into(), |name| name.to_string_lossy());
        PathBuf::from(format!("<{name}>"))
    }
}

/// Returns whether a path stands for standard input.
fn is_stdin(path: &Path) -> bool {
    path == Path::new("-") || path == Path::new("/dev/stdin")
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

/// Returns the message of an I/O error, in the style of other messages.
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

/// Returns the message about a bad name, with the expected form.
pub(crate) fn bad_name(what: &str, name: &str) -> String {
    format!(
        "{} is not a {what}: it begins with a letter, goes on with letters, digits, \"_\", \".\" \
         or \"-\", and has at most 255 characters",
        quoted(name)
    )
}
