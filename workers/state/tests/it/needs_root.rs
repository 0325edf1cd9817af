//! Tests that only root can run. Without root, `.ci/test` counts them as skipped.

use std::fs;

use crankcase_resources::state::{Store, Topic};
use crankcase_state::SqliteStore;

use crate::mount::Mount;
use crate::support::{Content, TestResult, kept, stored};

/// Makes a store with one record on a small disk.
fn small() -> TestResult<Mount> {
    let mount = Mount::new("size=1m,mode=0700")?;
    SqliteStore::open(mount.path())?.write(&[kept("page", "first")])?;
    Ok(mount)
}

#[test]
fn records_are_read_on_a_full_disk_and_written_when_it_has_room_again() -> TestResult {
    let mount = small()?;
    let open = SqliteStore::open(mount.path())?;
    open.write(&[kept("page", "second")])?;
    assert!(mount.fill().is_err(), "the disk is not full");
    let large = stored(Topic::Reversal, "ab", &"x".repeat(900_000))?;

    for _ in 0..2 {
        let refused = open.write(&[kept("page", "third"), large.clone()]);
        assert!(refused.is_err());
        assert_eq!(Content::of(&open)?.kept["page"], "second");
    }
    fs::remove_file(mount.path().join("fill"))?;
    open.write(&[kept("page", "third")])?;

    assert_eq!(Content::of(&open)?.kept["page"], "third");
    Ok(())
}

#[test]
fn an_agent_that_starts_on_a_full_disk_reads_and_writes_later() -> TestResult {
    let mount = small()?;
    assert!(mount.fill().is_err(), "the disk is not full");

    let store = SqliteStore::open(mount.path())?;
    assert_eq!(Content::of(&store)?.kept["page"], "first");
    fs::remove_file(mount.path().join("fill"))?;
    store.write(&[kept("page", "second")])?;

    assert_eq!(Content::of(&store)?.kept["page"], "second");
    Ok(())
}

#[test]
fn an_agent_that_starts_on_a_read_only_disk_reads_and_writes_later() -> TestResult {
    for is_killed in [false, true] {
        let mount = small()?;
        if is_killed {
            leave_log(&mount)?;
        }
        mount.remount("ro")?;

        let store = SqliteStore::open(mount.path())?;
        assert_eq!(Content::of(&store)?.kept["page"], "first");
        assert!(store.write(&[kept("page", "second")]).is_err());
        assert_eq!(Content::of(&store)?.kept["page"], "first");
        mount.remount("rw")?;
        store.write(&[kept("page", "second")])?;

        assert_eq!(Content::of(&store)?.kept["page"], "second");
    }
    Ok(())
}

/// Leaves what a killed agent leaves beside the file: a log and its index.
fn leave_log(mount: &Mount) -> TestResult {
    let folder = tempfile::tempdir()?;
    let open = SqliteStore::open(mount.path())?;
    open.write(&[kept("page", "first")])?;
    for entry in fs::read_dir(mount.path())? {
        let entry = entry?;
        fs::copy(entry.path(), folder.path().join(entry.file_name()))?;
    }
    drop(open);
    let mut endings = Vec::new();
    for entry in fs::read_dir(folder.path())? {
        let entry = entry?;
        endings.push(entry.file_name().to_string_lossy().into_owned());
        fs::copy(entry.path(), mount.path().join(entry.file_name()))?;
    }
    let has = |ending| endings.iter().any(|name| name.ends_with(ending));
    assert!(has("-wal") && has("-shm"), "{endings:?}");
    Ok(())
}
