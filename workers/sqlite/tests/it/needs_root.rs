//! Tests that only root can run. Without root, `.ci/test` counts them as skipped.

use std::fs;

use crankcase_sqlite::{SqliteFile, is_unwritable};

use crate::mount::Mount;
use crate::support::{TestResult, add, looked, notes, texts, write};

/// Returns a file with a note on a small disk, and what is beside it after a kill: a log with its
/// index, a log that has lost its index, or no log.
fn left(mount: &Mount, beside: &[&str]) -> TestResult<SqliteFile> {
    let folder = tempfile::tempdir()?;
    let file = notes(folder.path());
    let writer = write(&file)?;
    add(&writer, "one")?;
    if beside.is_empty() {
        drop(writer);
    }
    for ending in [&""].into_iter().chain(beside) {
        let name = format!("notes.db{ending}");
        fs::copy(folder.path().join(&name), mount.path().join(&name))?;
    }
    Ok(notes(mount.path()))
}

#[test]
fn a_file_on_a_full_disk_is_read() -> TestResult {
    for beside in [&[][..], &["-wal"], &["-wal", "-shm"]] {
        let mount = Mount::new("size=1m,mode=0700")?;
        let file = left(&mount, beside)?;
        assert!(mount.fill().is_err(), "the disk is not full");

        assert_eq!(looked(&file)?, ["one"], "{beside:?}");

        fs::remove_file(mount.path().join("fill"))?;
        add(&write(&file)?, "two")?;
        assert_eq!(looked(&file)?, ["one", "two"], "{beside:?}");
    }
    Ok(())
}

#[test]
fn a_file_on_a_read_only_disk_is_read_and_not_written() -> TestResult {
    for beside in [&[][..], &["-wal", "-shm"]] {
        let mount = Mount::new("size=1m,mode=0700")?;
        let file = left(&mount, beside)?;
        mount.remount("ro")?;

        assert_eq!(looked(&file)?, ["one"], "{beside:?}");
        let read = file.read()?.ok_or("there are no notes")?;
        assert_eq!(texts(&read)?, ["one"], "{beside:?}");
        drop(read);
        let refused = write(&file).err().ok_or("it was written")?;
        assert!(is_unwritable(&refused), "{refused:?}");
    }
    Ok(())
}
