//! Stores beside a naive model.

use std::sync::Arc;

use crankcase_resources::state::{Key, MemoryStore, Notification, Record, Store, Topic};
use crankcase_state::{SqliteStore, reading};
use proptest::prelude::*;

use crate::support::{Content, kept, stored};

/// What a test does with a store.
#[derive(Debug, Clone)]
enum Step {
    Write(Vec<Record>),
    /// Closes the store and opens it again.
    Reopen,
}

fn record() -> impl Strategy<Value = Record> {
    let name = prop_oneof![Just("a"), Just("b"), Just(""), Just("ä[\"/srv\"]\u{0}'")];
    (name.clone(), name, 0..6_usize, 0..9_usize).prop_map(|(name, other, form, value)| {
        let notification = Notification::new(name, other);
        let key = Key::new(Topic::ALL[value % 3], name);
        // The largest need several pages.
        let text = value.to_string().repeat(1 << (2 * value));
        match form {
            0 => Record::Pending(notification),
            1 => Record::Acknowledged(notification),
            2 => kept(name, other),
            3 => Record::Released { resource: name.into() },
            4 => stored(key.topic, name, &text).expect("it is small"),
            _ => Record::Removed { key },
        }
    })
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => prop::collection::vec(record(), 0..8).prop_map(Step::Write),
        1 => Just(Step::Reopen),
    ]
}

/// Returns what a record is about.
fn subject(record: &Record) -> String {
    match record {
        Record::Pending(it) | Record::Acknowledged(it) => format!("{it:?}"),
        Record::Kept { resource, .. } | Record::Released { resource } => resource.to_string(),
        Record::Stored { key, .. } | Record::Removed { key } => format!("{key:?}"),
    }
}

/// Returns what records come to: the last one about something counts.
fn expected(log: &[Record]) -> Content {
    let mut content = Content::default();
    for (at, record) in log.iter().enumerate() {
        if log[at + 1..].iter().any(|later| subject(later) == subject(record)) {
            continue;
        }
        match record {
            Record::Pending(Notification { target, source }) => {
                content.pending.push(format!("{target} by {source}"));
            }
            Record::Kept { resource, keep } => {
                content.kept.insert(resource.to_string(), keep.thing.clone());
            }
            Record::Stored { key, document } => {
                let name = format!("{} {}", key.topic.word(), key.name);
                content.documents.insert(name, document.as_str().to_owned());
            }
            Record::Acknowledged(_) | Record::Released { .. } | Record::Removed { .. } => {}
        }
    }
    content
}

/// Returns what a store has, in the order of the model.
fn found(store: &dyn Store, log: &[Record]) -> Result<(Content, Content), TestCaseError> {
    let (mut found, mut expected) = (Content::of(store)?, expected(log));
    found.pending.sort();
    expected.pending.sort();
    Ok((found, expected))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn a_store_has_what_the_last_records_say(steps in prop::collection::vec(step(), 1..16)) {
        let folder = tempfile::tempdir()?;
        let open = || SqliteStore::open(folder.path()).map(Arc::new);
        let (mut store, memory, mut log) = (open()?, MemoryStore::default(), Vec::new());
        for step in steps {
            match step {
                Step::Write(records) => {
                    store.write(&records)?;
                    memory.write(&records)?;
                    log.extend(records);
                }
                Step::Reopen => {
                    drop(store);
                    store = open()?;
                }
            }
            for store in [&*store as &dyn Store, &memory, &*reading(folder.path())?] {
                let (found, expected) = found(store, &log)?;
                prop_assert_eq!(found, expected);
            }
        }
    }
}
