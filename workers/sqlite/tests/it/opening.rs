//! The place of a file, its rights, and what others do meanwhile.

use std::error::Error;
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::Path;
use std::thread;

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
    for text in ["one", "two"] {
        fs::set_permissions(file.path(), fs::Permissions::from_mode(0o644))?;

        let writer = write(&file)?;

        add(&writer, text)?;
        assert_eq!(fs::read_dir(folder.path())?.count(), 3);
        for entry in fs::read_dir(folder.path())? {
            let entry = entry?;
            assert_eq!(entry.metadata()?.permissions().mode() & 0o7777, 0o600, "{entry:?}");
        }
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

#[test]
fn of_many_that_make_a_file_at_a_time_each_writes_to_the_same() -> TestResult {
    for _ in 0..20 {
        let folder = tempfile::tempdir()?;
        let file = notes(folder.path());
        let writes = |number: usize| {
            let writer = write(&file).map_err(|error| format!("{error:?}"))?;
            add(&writer, &number.to_string()).map_err(|error| error.to_string())
        };

        thread::scope(|scope| -> TestResult {
            let writers: Vec<_> =
                (0..4).map(|number| scope.spawn(move || writes(number))).collect();
            for writer in writers {
                writer.join().map_err(|_| "a writer has panicked")??;
            }
            Ok(())
        })?;

        assert_eq!(looked(&file)?.len(), 4);
    }
    Ok(())
}

/// Returns the inodes of the files that this process has locked, by POSIX locks.
fn locked() -> TestResult<Vec<u64>> {
    let own = std::process::id().to_string();
    let locks = fs::read_to_string("/proc/locks")?;
    let of_this = locks.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
    let of_this = of_this.filter(|parts| parts.get(1) == Some(&"POSIX") && parts[4] == own);
    let inode = |parts: Vec<&str>| parts[5].rsplit(':').next().unwrap_or_default().parse();
    Ok(of_this.map(inode).collect::<Result<_, _>>()?)
}

#[test]
fn a_connection_keeps_its_locks_when_the_file_is_opened_again_in_each_way() -> TestResult {
    let folder = tempfile::tempdir()?;
    let file = notes(folder.path());
    let writer = write(&file)?;
    add(&writer, "one")?;
    let beside = ["", "-shm"].map(|ending| folder.path().join(format!("notes.db{ending}")));
    let inodes = beside.map(|path| fs::metadata(path).map(|found| found.ino()));
    let inodes = inodes.into_iter().collect::<Result<Vec<_>, _>>()?;
    let is_locked = || locked().map(|locked| inodes.iter().all(|inode| locked.contains(inode)));
    assert!(is_locked()?, "the test looks for the wrong locks");

    // With another mode, which a writer sets right.
    fs::set_permissions(file.path(), fs::Permissions::from_mode(0o644))?;
    for opened in [file.read()?, file.look()?, Some(write(&file)?)] {
        drop(opened);
        assert!(is_locked()?);
    }

    assert_eq!(fs::metadata(file.path())?.permissions().mode() & 0o7777, 0o600);
    Ok(())
}
