use std::fs::{self, File};
use std::io::{ErrorKind, Read};
use std::path::{Path, PathBuf};

use crankcase_workers::{OpenRegularError, open_regular};

use crate::manifest::bounds::{Bounds, MAX_BYTES};
use crate::manifest::lines::Source;
use crate::manifest::problem::{Problems, quoted};

/// What says at the begin of a text how it is written; it is no part of it.
const BYTE_ORDER_MARK: char = '\u{feff}';

/// How many files a folder or a call may name.
const MAX_FILES: usize = 10_000;

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

/// Reads one file of a manifest, within the manifest's bounds.
pub(crate) fn read(path: &Path, bounds: &mut Bounds, problems: &mut Problems) -> Option<Source> {
    let bytes = read_bytes(path).and_then(|bytes| {
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
    let (file, size) = open(path)?;
    let too_large = || format!("the file is larger than 16 MiB ({MAX_BYTES} bytes)");
    if size > MAX_BYTES {
        return Err(too_large().into());
    }
    let mut bytes = Vec::new();
    file.take(MAX_BYTES + 1).read_to_end(&mut bytes).map_err(|err| cannot(&err))?;
    if bytes.len() as u64 > MAX_BYTES {
        return Err(too_large().into());
    }
    Ok(bytes)
}

/// Opens a regular file, and returns its size with it.
pub(crate) fn open(path: &Path) -> Result<(File, u64), Unreadable> {
    open_regular(path).map_err(|not_opened| match not_opened {
        OpenRegularError::Other(_) => "not a regular file".to_owned().into(),
        OpenRegularError::Refused(err) => cannot(&err),
    })
}

fn cannot(err: &std::io::Error) -> Unreadable {
    let is_missing = matches!(err.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory);
    Unreadable { message: format!("cannot read the file: {}", reason(err)), is_missing }
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
