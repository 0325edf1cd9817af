//! What earlier versions of the program have left in a state folder, in a format of its own for
//! each kind of records.
//!
//! | path | content |
//! | --- | --- |
//! | `notices` | a line of JSON for each change of the pending notifications |
//! | `kept` | the resources of the site, as JSON |
//! | `reversals/THING` | how a thing is put back, as JSON |
//! | `rules/RULE.json` | the record of a rule, as JSON |

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{OsStr, OsString};
use std::path::PathBuf;
use std::sync::Arc;

use crankcase_resources::BoxError;
use crankcase_resources::state::{Document, Keep, Key, Notification, Record, Topic};
use crankcase_workers::{EntryKind, FileError, Folder, is_temporary};
use serde::Deserialize;

use crate::error::SqliteStoreError;

const NOTICES: &str = "notices";
const KEPT: &str = "kept";
const REVERSALS: &str = "reversals";
const RULES: &str = "rules";

/// What the name of the record of a rule ends with.
const ENDING: &str = ".json";

/// The largest files that are read, in bytes.
const LARGEST_NOTICES: u64 = 64 * 1024 * 1024;
const LARGEST_KEPT: u64 = 256 * 1024 * 1024;
const LARGEST_REVERSAL: u64 = 16 * 1024 * 1024;
const LARGEST_RULE: u64 = Document::LARGEST as u64;

/// How many names of a folder are read.
const MOST: usize = 1_000_000;

/// The version of the format of `kept`.
const FORMAT: u32 = 1;

/// A line of the notices.
#[derive(Deserialize)]
#[serde(untagged, deny_unknown_fields)]
enum Line {
    Owed {
        #[serde(rename = "owed")]
        target: String,
        by: String,
    },
    Answered {
        #[serde(rename = "answered")]
        target: String,
        by: String,
    },
}

#[derive(Deserialize)]
struct Kept {
    format: u32,
    resources: BTreeMap<Arc<str>, Keep>,
}

type Take<'a> = &'a mut dyn FnMut(Record) -> Result<(), SqliteStoreError>;

/// Returns whether an earlier version has left something.
pub(crate) fn is_there(state: &Folder) -> bool {
    let has = |name: &str| state.look(name).is_ok_and(|found| found.is_some());
    let rules = || names(state, RULES).unwrap_or_default();
    has(NOTICES) || has(KEPT) || has(REVERSALS) || rules().iter().any(|name| is_rule(name))
}

/// Gives each record that an earlier version has left to `take`. Returns the paths of the files
/// that were read, in the state folder.
///
/// What the earlier version would have left out with a warning is left out: lines of notices that
/// are not whole, and files with what was kept or is put back that cannot be read. Such files stay.
pub(crate) fn read(state: &Folder, take: Take<'_>) -> Result<Vec<String>, SqliteStoreError> {
    let mut paths = Vec::new();
    if read_notices(state, take)? {
        paths.push(NOTICES.to_owned());
    }
    if read_kept(state, take)? {
        paths.push(KEPT.to_owned());
    }
    read_reversals(state, take, &mut paths)?;
    read_rules(state, take, &mut paths)?;
    Ok(paths)
}

/// Removes files that were read, past no symlink, so that no crash brings them back.
pub(crate) fn remove(state: &Folder, paths: &[String]) -> Result<(), FileError> {
    // What was taken over is in a file whose name has to be on disk first.
    state.entries()?.sync()?;
    let mut folders = BTreeSet::new();
    for path in paths {
        match path.split_once('/') {
            None => state.forget(path)?,
            Some((folder, name)) => {
                folders.insert(folder);
                child(state, folder)?.map_or(Ok(()), |folder| folder.forget(name))?;
            }
        }
    }
    for folder in folders {
        child(state, folder)?.map_or(Ok(()), |folder| folder.entries()?.sync())?;
    }
    // It stays if something is in it that was not read.
    drop(state.remove(REVERSALS, EntryKind::Folder));
    state.entries()?.sync()
}

fn read_notices(state: &Folder, take: Take<'_>) -> Result<bool, SqliteStoreError> {
    let bytes = match state.read(NOTICES, LARGEST_NOTICES) {
        Err(error) if error.is_missing() => return Ok(false),
        read => read.map_err(|error| wrong((state, NOTICES), error))?,
    };
    for (line, text) in bytes.split(|byte| *byte == b'\n').enumerate() {
        match serde_json::from_slice(text) {
            Ok(Line::Owed { target, by }) => take(Record::Pending(Notification::new(target, by)))?,
            Ok(Line::Answered { target, by }) => {
                take(Record::Acknowledged(Notification::new(target, by)))?;
            }
            Err(_) if text.is_empty() => {}
            Err(_) => tracing::warn!(line = line + 1, "a notice is not whole; it is left out"),
        }
    }
    Ok(true)
}

fn read_kept(state: &Folder, take: Take<'_>) -> Result<bool, SqliteStoreError> {
    let read = || -> Result<Option<Kept>, BoxError> {
        let bytes = match state.read(KEPT, LARGEST_KEPT) {
            Err(error) if error.is_missing() => return Ok(None),
            read => read?,
        };
        let kept: Kept = serde_json::from_slice(&bytes)?;
        if kept.format != FORMAT {
            return Err(format!("it has format {}; expected {FORMAT}", kept.format).into());
        }
        Ok(Some(kept))
    };
    match read() {
        Ok(None) => Ok(false),
        Ok(Some(Kept { resources, .. })) => {
            let mut kept = resources.into_iter();
            kept.try_for_each(|(resource, keep)| take(Record::Kept { resource, keep }))?;
            Ok(true)
        }
        Err(error) => {
            tracing::warn!(error, "cannot read what was kept; what has left is not told");
            Ok(false)
        }
    }
}

fn read_reversals(
    state: &Folder,
    take: Take<'_>,
    paths: &mut Vec<String>,
) -> Result<(), SqliteStoreError> {
    let read = |folder: &Folder, name: &str| -> Result<Document, BoxError> {
        let text = String::from_utf8(folder.read(name, LARGEST_REVERSAL)?)?;
        Ok(Document::from_text(text)?)
    };
    let listed = names(state, REVERSALS).and_then(|names| Ok((names, child(state, REVERSALS)?)));
    let (names, folder) = match listed {
        Ok((names, Some(folder))) => (names, folder),
        Ok((_, None)) => return Ok(()),
        Err(error) => {
            tracing::warn!(%error, "cannot read how resources are put back");
            return Ok(());
        }
    };
    for thing in names.iter().filter_map(|name| name.to_str()) {
        match read(&folder, thing) {
            Ok(document) => {
                take(Record::Stored { key: Key::new(Topic::Reversal, thing), document })?;
                paths.push(format!("{REVERSALS}/{thing}"));
            }
            Err(error) => tracing::warn!(thing, error, "cannot read how a resource is put back"),
        }
    }
    Ok(())
}

fn read_rules(
    state: &Folder,
    take: Take<'_>,
    paths: &mut Vec<String>,
) -> Result<(), SqliteStoreError> {
    let wrong_folder = |error: FileError| wrong((state, RULES), error);
    let names = names(state, RULES).map_err(wrong_folder)?;
    let Some(folder) = child(state, RULES).map_err(wrong_folder)? else { return Ok(()) };
    for name in names.iter().filter(|name| is_rule(name)).filter_map(|name| name.to_str()) {
        let read = || -> Result<Document, BoxError> {
            let bytes = folder.read(name, LARGEST_RULE)?;
            // A text that is no record stops its own rule, when that reads it.
            Ok(Document::from_text(String::from_utf8_lossy(&bytes))?)
        };
        let document = read().map_err(|error| wrong((&folder, name), error))?;
        let rule = name.strip_suffix(ENDING).unwrap_or(name);
        take(Record::Stored { key: Key::new(Topic::Rule, rule), document })?;
        paths.push(format!("{RULES}/{name}"));
    }
    Ok(())
}

/// Opens a folder in the state folder; none if there is none. A symlink in its place is an error.
fn child(state: &Folder, name: &str) -> Result<Option<Folder>, FileError> {
    match state.child(name) {
        Err(error) if error.is_missing() => Ok(None),
        opened => opened.map(Some),
    }
}

/// Returns the names in a folder of the state folder that are not temporary.
fn names(state: &Folder, name: &str) -> Result<Vec<OsString>, FileError> {
    let mut names = match child(state, name)? {
        Some(folder) => folder.names(MOST)?,
        None => Vec::new(),
    };
    names.retain(|name| !is_temporary(name));
    names.sort();
    Ok(names)
}

fn is_rule(name: &OsStr) -> bool {
    name.to_str().is_some_and(|name| name.ends_with(ENDING))
}

fn wrong((folder, name): (&Folder, &str), error: impl Into<BoxError>) -> SqliteStoreError {
    let path: PathBuf = folder.path().join(name);
    SqliteStoreError::TakeOver { path, source: error.into() }
}
