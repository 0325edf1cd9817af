//! The place of a file, its rights, and what others do meanwhile.

use std::error::Error;
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;

use crankcase_sqlite::{SqliteError, is_unwritable};
use crankcase_workers::Folder;

use crate::support::{TestResult, add, looked, notes, texts, write};

#[test]
fn a_look_makes_nothing() -> TestResult {
    let folder = tempfile::tempdir()?;
    let missing = folder.path().join("missing");

    for place in [folder.path(), &missing] {
        let file = notes(place);
        assert!(!file.is_there()?);
        assert!(file.look()?.is_none());
    }

    assert_eq!(fs::read_dir(folder.path())?.count(), 0);
    Ok(())
}

#[test]
fn only_its_owner_reads_a_file_that_was_written() -> TestResult {
    let folder = tempfile::tempdir()?;
    let file = notes(folder.path());
    fs::write(file.path(), "")?;
    fs::set_permissions(file.path(), fs::Permissions::from_mode(0o644))?;

    let writer = write(&file)?;

    add(&writer, "one")?;
    assert_eq!(fs::read_dir(folder.path())?.count(), 3);
    for entry in fs::read_dir(folder.path())? {
        let entry = entry?;
        assert_eq!(entry.metadata()?.permissions().mode() & 0o7777, 0o600, "{entry:?}");
    }
    Ok(())
}

#[test]
fn what_is_written_is_seen_by_a_look_meanwhile() -> TestResult {
    let folder = tempfile::tempdir()?;
    let file = notes(folder.path());
    let writer = write(&file)?;
    let reader = file.look()?.ok_or("there are no notes")?;
    add(&writer, "one")?;
    let transaction = writer.unchecked_transaction()?;
    add(&transaction, "two")?;

    assert_eq!(texts(&reader)?, ["one"]);
    transaction.commit()?;

    assert_eq!(texts(&reader)?, ["one", "two"]);
    Ok(())
}

#[test]
fn a_folder_that_is_not_there_is_named_to_a_writer() {
    let file = notes(Path::new("/nowhere"));

    for error in [write(&file).err(), file.require_folder().err()] {
        let texts = error.map(|error| (error.to_string(), cause(&error)));
        let expected = "cannot make or find /nowhere/notes.db".to_owned();
        assert_eq!(texts, Some((expected, "folder \"/nowhere\" does not exist".to_owned())));
    }
}

/// Returns the text of the cause of an error.
fn cause(error: &SqliteError) -> String {
    error.source().map(ToString::to_string).unwrap_or_default()
}

#[test]
fn a_link_in_the_place_of_a_file_is_refused_and_left_alone() -> TestResult {
    for ending in ["", "-wal", "-shm", "-journal"] {
        let folder = tempfile::tempdir()?;
        let (file, other) = (notes(folder.path()), folder.path().join("other"));
        add(&write(&file)?, "one")?;
        fs::copy(file.path(), &other)?;
        let before = fs::read(&other)?;
        let link = folder.path().join(format!("notes.db{ending}"));
        for is_symlink in [true, false] {
            // SQLite may have left one.
            drop(fs::remove_file(&link));
            if is_symlink {
                symlink(&other, &link)?;
            } else {
                fs::hard_link(&other, &link)?;
            }

            let opened = [write(&file).map(Some), file.look(), file.read()];

            for opened in opened {
                let Err(error @ SqliteError::Make { .. }) = opened else {
                    return Err(format!("{opened:?} with {link:?}").into());
                };
                let expected = if is_symlink {
                    format!("{link:?} is a symlink and not a file; it is left as it is")
                } else {
                    format!("{link:?} has 2 hard links, ")
                };
                assert!(cause(&error).starts_with(&expected), "{error:?}");
                assert!(!is_unwritable(&error));
            }
            assert_eq!(fs::read(&other)?, before);
            assert_eq!(fs::symlink_metadata(&link)?.is_symlink(), is_symlink);
        }
    }
    Ok(())
}

#[test]
fn no_file_is_made_at_the_end_of_a_symlink() -> TestResult {
    let folder = tempfile::tempdir()?;
    let file = notes(folder.path());
    symlink("nowhere", file.path())?;

    for opened in [write(&file).map(Some), file.look(), file.read()] {
        assert!(matches!(opened, Err(SqliteError::Make { .. })), "{opened:?}");
    }

    assert!(!folder.path().join("nowhere").exists());
    Ok(())
}

#[test]
fn a_file_is_found_in_a_folder_that_is_held_when_another_one_gets_its_path() -> TestResult {
    let outer = tempfile::tempdir()?;
    let (path, moved) = (outer.path().join("state"), outer.path().join("moved"));
    let held = Folder::make(&path)?.hold_path()?;
    fs::rename(&path, &moved)?;
    fs::create_dir(&path)?;

    add(&write(&notes(&path))?, "one")?;

    assert_eq!(looked(&notes(&path))?, ["one"]);
    assert_eq!(fs::read_dir(&path)?.count(), 0);
    drop(held);
    assert_eq!(looked(&notes(&moved))?, ["one"]);
    Ok(())
}
