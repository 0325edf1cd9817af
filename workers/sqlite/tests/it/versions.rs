//! Files of other versions and of other programs.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use crankcase_sqlite::{SqliteError, SqliteFile};
use rusqlite::Connection;

use crate::support::{APPLICATION, LATER, TestResult, add, looked, notes, write};

fn later(path: &Path) -> SqliteFile {
    SqliteFile::new(path, LATER)
}

/// Returns a file of this application id and this version, with a table.
fn database(id: i32, version: i64) -> TestResult<Vec<u8>> {
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("other");
    let pragmas = format!("PRAGMA application_id = {id}; PRAGMA user_version = {version};");
    Connection::open(&path)?.execute_batch(&format!("{pragmas} CREATE TABLE t (id)"))?;
    Ok(fs::read(path)?)
}

#[test]
fn what_cannot_be_understood_is_named_and_left_as_it_is() -> TestResult {
    let folder = tempfile::tempdir()?;
    let file = notes(folder.path());
    let shown = file.path().display();
    let foreign = format!("the file {shown} has no notes: it is a database of something else");
    let cases = [
        (database(0, 0)?, foreign.clone()),
        (database(0, 1)?, foreign.clone()),
        (database(APPLICATION, 0)?, foreign.clone()),
        (database(APPLICATION + 1, 1)?, foreign),
        (
            database(APPLICATION, 99)?,
            format!("the file {shown} has version 99 of the notes; this program reads up to 1"),
        ),
        (b"no database, but a text ".repeat(99), format!("cannot use the notes in {shown}")),
    ];
    for (content, expected) in cases {
        fs::write(file.path(), &content)?;
        fs::set_permissions(file.path(), fs::Permissions::from_mode(0o640))?;

        for opened in [write(&file).map(Some), file.look(), file.read()] {
            let error = opened.map_err(|error| error.to_string()).err();
            assert_eq!(error.as_ref(), Some(&expected));
        }

        assert_eq!(fs::read(file.path())?, content, "{expected}");
        let mode = fs::metadata(file.path())?.permissions().mode() & 0o7777;
        assert_eq!(mode, 0o640, "{expected}");
    }
    Ok(())
}

#[test]
fn a_file_without_tables_has_nothing_for_a_reader_and_gets_them_from_a_writer() -> TestResult {
    let folder = tempfile::tempdir()?;
    let file = notes(folder.path());
    Connection::open(file.path())?.execute_batch("PRAGMA journal_mode = WAL")?;
    assert!(file.is_there()?);

    assert!(file.look()?.is_none());
    assert!(file.read()?.is_none());
    add(&write(&file)?, "one")?;

    assert_eq!(looked(&file)?, ["one"]);
    Ok(())
}

#[test]
fn an_older_file_is_updated_by_a_writer_and_by_no_reader() -> TestResult {
    let folder = tempfile::tempdir()?;
    let old = notes(folder.path());
    add(&write(&old)?, "one")?;
    let file = later(old.path());

    for read in [file.look(), file.read()] {
        let error = read.err().ok_or("it was read")?;
        assert!(matches!(error, SqliteError::Older { version: 1, newest: 2, .. }), "{error:?}");
        let expected = "has version 1 of the notes; it is brought to version 2 when it is written";
        assert!(error.to_string().contains(expected), "{error}");
    }
    assert_eq!(looked(&old)?, ["one"]);
    let mut before = Vec::new();
    for _ in 0..2 {
        file.write(|update| {
            before.push(update.before);
            update.run_steps()
        })?;
    }

    assert_eq!(before, [1], "only the first writer updates it");
    assert_eq!(looked(&file)?, ["one"]);
    assert!(old.look().is_err());
    Ok(())
}

#[test]
fn an_update_that_fails_changes_nothing() -> TestResult {
    let folder = tempfile::tempdir()?;
    let old = notes(folder.path());
    add(&write(&old)?, "one")?;

    let failed = later(old.path()).write(|update| -> TestResult {
        update.run_steps()?;
        add(update.connection, "two")?;
        Err("no luck".into())
    });

    assert_eq!(failed.map_err(|error| error.to_string()).err().as_deref(), Some("no luck"));
    assert_eq!(looked(&old)?, ["one"]);
    Ok(())
}

#[test]
fn a_copy_has_what_is_on_disk_and_takes_the_place_of_an_older_one() -> TestResult {
    let folder = tempfile::tempdir()?;
    let file = notes(folder.path());
    let writer = write(&file)?;
    for text in ["one", "two"] {
        add(&writer, text)?;

        let copy = file.copy(".before")?;

        assert_eq!(copy.path(), folder.path().join("notes.db.before"));
        assert_eq!(looked(&copy)?, looked(&file)?);
    }
    Ok(())
}

#[test]
fn a_copy_is_made_in_a_folder_whose_name_is_no_text() -> TestResult {
    let outer = tempfile::tempdir()?;
    let folder = outer.path().join(OsStr::from_bytes(b"\xff"));
    fs::create_dir(&folder)?;
    let file = notes(&folder);
    add(&write(&file)?, "one")?;

    let copy = file.copy(".before")?;

    assert_eq!(looked(&copy)?, ["one"]);
    Ok(())
}
