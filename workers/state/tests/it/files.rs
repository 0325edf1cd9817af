//! The file, and what may be in its place.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use crankcase_resources::state::Store;
use crankcase_state::{SqliteStore, reading};
use rusqlite::Connection;

use crate::support::{Content, TestResult, files, kept, pending};

#[test]
fn nothing_is_made_before_the_first_write() -> TestResult {
    let folder = tempfile::tempdir()?;
    let state = folder.path().join("state");

    let store = SqliteStore::open(&state)?;
    assert_eq!(Content::of(&store)?, Content::default());
    assert_eq!(Content::of(&*reading(&state)?)?, Content::default());
    assert!(!state.exists());
    store.write(&[pending("server", "page")])?;

    assert_eq!(Content::of(&store)?.pending, ["server by page"]);
    assert_eq!(files(&state)?, ["state.db", "state.db-shm", "state.db-wal"]);
    Ok(())
}

#[test]
fn only_its_owner_reads_the_file() -> TestResult {
    let folder = tempfile::tempdir()?;
    let state = folder.path().join("state");
    let store = SqliteStore::open(&state)?;
    store.write(&[pending("server", "page")])?;

    for file in files(&state)? {
        let mode = fs::metadata(state.join(&file))?.permissions().mode();
        assert_eq!(mode & 0o7777, 0o600, "{file}");
    }
    assert_eq!(fs::metadata(&state)?.permissions().mode() & 0o7777, 0o700);
    Ok(())
}

#[test]
fn what_an_agent_writes_is_read_meanwhile() -> TestResult {
    let folder = tempfile::tempdir()?;
    let store = SqliteStore::open(folder.path())?;
    store.write(&[kept("page", "first")])?;
    let reader = reading(folder.path())?;
    assert_eq!(Content::of(&*reader)?.kept["page"], "first");

    store.write(&[kept("page", "second")])?;

    assert_eq!(Content::of(&*reader)?.kept["page"], "second");
    let refused = reader.write(&[kept("page", "third")]);
    let path = folder.path().join("state.db");
    let expected = format!("the records in {} were opened to be read", path.display());
    assert_eq!(refused.map_err(|error| error.to_string()), Err(expected));
    Ok(())
}

#[test]
fn a_file_that_is_no_store_is_named_and_left_as_it_is() -> TestResult {
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("state.db");
    let foreign = Connection::open(&path)?;
    foreign.execute_batch("CREATE TABLE other (id INTEGER)")?;
    drop(foreign);
    let foreign = fs::read(&path)?;
    let later = Connection::open(folder.path().join("later"))?;
    later.execute_batch(
        "PRAGMA application_id = 1131574132; PRAGMA user_version = 99; CREATE TABLE t (id)",
    )?;
    drop(later);
    let later = fs::read(folder.path().join("later"))?;
    let shown = path.display();
    let cases = [
        (foreign, format!("the file {shown} has no records: it is a database of something else")),
        (
            later,
            format!("the file {shown} has version 99 of the records; this program reads up to 1"),
        ),
        (b"no database, but a text ".repeat(99), format!("cannot use the records in {shown}")),
    ];
    for (content, expected) in cases {
        fs::write(&path, &content)?;

        let opened = SqliteStore::open(folder.path()).map_err(|error| error.to_string());

        assert_eq!(opened.err(), Some(expected));
        assert_eq!(fs::read(&path)?, content);
    }
    Ok(())
}
