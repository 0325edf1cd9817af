//! Helpers that the tests share.

use std::collections::BTreeMap;
use std::env::current_exe;
use std::error::Error;
use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use crankcase_resources::state::{
    Document, Keep, Key, Notification, Record, Store, StoreError, Topic,
};

pub(crate) type TestResult<T = ()> = Result<T, Box<dyn Error>>;

/// The environment variable with the state folder of a child. Without it the tests that are run in
/// a child do nothing.
pub(crate) const STATE: &str = "CRANKCASE_TEST_STATE";

/// Starts this program again, to run a test with a state folder.
pub(crate) fn child(test: &str, state: &Path) -> TestResult<Child> {
    let mut command = Command::new(current_exe()?);
    command.args(["--exact", test, "--nocapture"]).env(STATE, state).stdin(Stdio::null());
    Ok(command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn()?)
}

pub(crate) fn pending(target: &str, source: &str) -> Record {
    Record::Pending(Notification::new(target, source))
}

pub(crate) fn kept(resource: &str, thing: &str) -> Record {
    let keep = Keep { kind: "file".to_owned(), thing: thing.to_owned() };
    Record::Kept { resource: resource.into(), keep }
}

pub(crate) fn stored(topic: Topic, name: &str, text: &str) -> TestResult<Record> {
    Ok(Record::Stored { key: Key::new(topic, name), document: Document::from_text(text)? })
}

/// All that a store has, as texts.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Content {
    /// Targets, each with a source.
    pub(crate) pending: Vec<String>,
    /// Things, by resource.
    pub(crate) kept: BTreeMap<String, String>,
    /// Texts, by topic and name.
    pub(crate) documents: BTreeMap<String, String>,
}

impl Content {
    pub(crate) fn of(store: &dyn Store) -> Result<Self, StoreError> {
        let loaded = store.load()?;
        let mut content = Self::default();
        for Notification { target, source } in loaded.pending {
            content.pending.push(format!("{target} by {source}"));
        }
        for (resource, keep) in loaded.kept {
            content.kept.insert(resource.to_string(), keep.thing);
        }
        for key in loaded.documents {
            let text = store.document(&key)?.map(|document| document.as_str().to_owned());
            let name = format!("{} {}", key.topic.word(), key.name);
            content.documents.insert(name, text.unwrap_or_else(|| "nothing".to_owned()));
        }
        Ok(content)
    }
}

/// Returns the paths of all files below a folder, in order.
pub(crate) fn files(folder: &Path) -> TestResult<Vec<String>> {
    let (mut files, mut open) = (Vec::new(), vec![folder.to_owned()]);
    while let Some(next) = open.pop() {
        for entry in fs::read_dir(&next)? {
            let path = entry?.path();
            if fs::symlink_metadata(&path)?.is_dir() {
                open.push(path);
            } else {
                files.push(path.strip_prefix(folder)?.to_string_lossy().into_owned());
            }
        }
    }
    files.sort();
    Ok(files)
}
