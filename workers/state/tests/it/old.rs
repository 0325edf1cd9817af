//! What earlier versions have left.

use std::error::Error;
use std::fs;
use std::path::Path;

use crankcase_resources::state::Store;
use crankcase_state::{SqliteStore, reading};
use rusqlite::Connection;

use crate::support::{Content, TestResult, files, kept};

/// Writes what an earlier version has left in a state folder.
pub(crate) fn leave(state: &Path) -> TestResult {
    fs::create_dir_all(state.join("reversals"))?;
    fs::create_dir_all(state.join("rules"))?;
    let files = [
        (
            "notices",
            "\n{\"owed\":\"server\",\"by\":\"page\"}\n\n{\"owed\":\"server\",\"by\":\"conf\"}\n\n\
             {\"answered\":\"server\",\"by\":\"page\"}\n\n{\"owed\":\"bef",
        ),
        ("kept", r#"{"format":1,"resources":{"page":{"type":"file","thing":"ab"}}}"#),
        ("reversals/ab", r#"{"resource":"page"}"#),
        ("reversals/.cd.crankcase-tmp", "half"),
        ("rules/again.json", r#"{"fired":3}"#),
        ("rules/events.jsonl", "\n"),
    ];
    files.into_iter().try_for_each(|(path, text)| fs::write(state.join(path), text))?;
    Ok(())
}

/// Requires that a store has what was left.
pub(crate) fn require_left(store: &dyn Store) -> TestResult {
    let content = Content::of(store)?;
    assert_eq!(content.pending, ["server by conf"]);
    assert_eq!(content.kept, [("page".to_owned(), "ab".to_owned())].into());
    let documents = [("reversal ab", r#"{"resource":"page"}"#), ("rule again", r#"{"fired":3}"#)];
    let documents = documents.map(|(name, text)| (name.to_owned(), text.to_owned()));
    assert_eq!(content.documents, documents.into());
    Ok(())
}

#[test]
fn what_an_earlier_version_has_left_is_taken_over_once() -> TestResult {
    let folder = tempfile::tempdir()?;
    leave(folder.path())?;

    for _ in 0..2 {
        let store = SqliteStore::open(folder.path())?;
        require_left(&store)?;
    }

    let left = ["reversals/.cd.crankcase-tmp", "rules/events.jsonl", "state.db"];
    assert_eq!(files(folder.path())?, left);
    // What comes later is of another program, and not taken over.
    fs::write(folder.path().join("kept"), "{}")?;
    require_left(&SqliteStore::open(folder.path())?)?;
    assert!(folder.path().join("kept").exists());
    Ok(())
}

#[test]
fn a_plan_reads_it_and_changes_nothing() -> TestResult {
    let folder = tempfile::tempdir()?;
    leave(folder.path())?;
    let before = files(folder.path())?;

    require_left(&*reading(folder.path())?)?;

    assert_eq!(files(folder.path())?, before);
    Ok(())
}

#[test]
fn what_cannot_be_read_stays_and_hides_nothing_else() -> TestResult {
    let folder = tempfile::tempdir()?;
    leave(folder.path())?;
    fs::write(folder.path().join("kept"), r#"{"format":9,"resources":{}}"#)?;
    fs::write(folder.path().join("reversals/ef"), [0xff])?;

    let store = SqliteStore::open(folder.path())?;

    let content = Content::of(&store)?;
    assert!(content.kept.is_empty());
    assert_eq!(content.documents.len(), 2);
    let left = ["kept", "reversals/.cd.crankcase-tmp", "reversals/ef", "rules/events.jsonl"];
    assert_eq!(files(folder.path())?[..4], left);
    Ok(())
}

#[test]
fn an_error_takes_over_nothing() -> TestResult {
    let folder = tempfile::tempdir()?;
    leave(folder.path())?;
    let record = folder.path().join("rules/again.json");
    fs::remove_file(&record)?;
    fs::create_dir(&record)?;

    let error = SqliteStore::open(folder.path()).err().ok_or("it was opened")?;

    assert_eq!(error.to_string(), format!("cannot take over {}", record.display()));
    assert!(error.source().is_some());
    fs::remove_dir(&record)?;
    fs::write(&record, r#"{"fired":3}"#)?;
    require_left(&SqliteStore::open(folder.path())?)
}

#[test]
fn files_that_were_taken_over_are_removed_after_a_crash() -> TestResult {
    let folder = tempfile::tempdir()?;
    leave(folder.path())?;
    let store = SqliteStore::open(folder.path())?;
    store.write(&[kept("page", "newer")])?;
    drop(store);
    // As if the crash had come before the removal.
    leave(folder.path())?;
    let file = Connection::open(folder.path().join("state.db"))?;
    file.execute_batch("INSERT INTO taken_over VALUES ('kept'), ('reversals/ab')")?;
    drop(file);

    let store = SqliteStore::open(folder.path())?;

    assert_eq!(Content::of(&store)?.kept["page"], "newer");
    let left = files(folder.path())?;
    assert!(!left.contains(&"kept".to_owned()) && !left.contains(&"reversals/ab".to_owned()));
    assert!(left.contains(&"notices".to_owned()), "it was not taken over");
    Ok(())
}
