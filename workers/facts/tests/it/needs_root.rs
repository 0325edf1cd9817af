//! Tests that only root can run. Without root, `.ci/test` counts them as skipped.

use std::fs;
use std::path::Path;

use crankcase_facts::{Facts, FactsError, Sqlite, StoreError};
use serde_json::json;

use crate::mount::Mount;
use crate::support::{TestResult, World, open};

#[test]
fn a_full_disk_refuses_a_change_and_loses_nothing() -> TestResult {
    let mount = Mount::new("size=1m,mode=0755")?;
    let path = mount.path().join("facts.db");
    let facts = Facts::open(Box::new(Sqlite::open(&path)?))?;
    let world = World { facts, folder: tempfile::tempdir()? };
    world.load(1, json!({"kept": {"a": [1, 2, 3]}}))?;
    let before = world.facts.current();

    let refused = loop {
        match world.ops(json!([["SET", "/kept/b", "x".repeat(20_000)]])) {
            Ok(_) => {}
            Err(error) => break error,
        }
        assert!(world.facts.current().revision() < 1_000, "the disk is not full");
    };

    let FactsError::Store(error @ StoreError::Use { .. }) = refused else {
        return Err(format!("{refused:?}").into());
    };
    let source = std::error::Error::source(&error).map(ToString::to_string).unwrap_or_default();
    assert!(source.contains("disk is full") || source.contains("disk I/O error"), "{source}");
    let current = world.facts.current();
    assert!(current.revision() >= before.revision());
    let again = Facts::open(Box::new(Sqlite::open(&path)?))?.current();
    assert_eq!((again.digest(), again.version()), (current.digest(), current.version()));
    assert_eq!(again.at(&"/kept/a".parse()?).map(|it| it.to_value()), Some(json!([1, 2, 3])));
    Ok(())
}

/// Returns a store with one fact, and what its files are after a kill: with a log, with a log that has lost its index, or
/// without a log.
fn stored(mount: &Mount, left: &[&str]) -> TestResult<std::path::PathBuf> {
    let path = mount.path().join("facts.db");
    let made = tempfile::tempdir()?;
    let world = World { facts: open(&made.path().join("facts.db"))?, folder: made };
    world.load(1, json!({"a": 1}))?;
    world.ops(json!([["SET", "/a", 2]]))?;
    if left.is_empty() {
        let World { facts, folder } = world;
        drop(facts);
        fs::copy(folder.path().join("facts.db"), &path)?;
        return Ok(path);
    }
    for suffix in ["", "-wal", "-shm"].iter().filter(|it| it.is_empty() || left.contains(it)) {
        let name = format!("facts.db{suffix}");
        fs::copy(world.folder.path().join(&name), mount.path().join(&name))?;
    }
    Ok(path)
}

/// Opens facts to read them and to change them, and checks what both see.
fn opened(path: &Path, left: &[&str]) -> TestResult<World> {
    let found = Sqlite::find(path)?.ok_or("there is no store")?;
    assert_eq!(Facts::open(Box::new(found))?.current().version(), 2, "{left:?}");
    let world = World { facts: open(path)?, folder: tempfile::tempdir()? };
    assert_eq!(world.value(), json!({"a": 2}), "{left:?}");
    Ok(world)
}

#[test]
fn facts_are_read_on_a_full_disk_and_changed_when_it_has_room_again() -> TestResult {
    for left in [&[][..], &["-wal"], &["-wal", "-shm"]] {
        let mount = Mount::new("size=1m,mode=0755")?;
        let path = stored(&mount, left)?;
        assert!(mount.fill().is_err(), "the disk is not full");

        let world = opened(&path, left)?;
        assert_eq!(world.facts.log(None, 9)?.len(), 2);
        let large = world.ops(json!([["SET", "/b", "x".repeat(100_000)]]));
        assert!(matches!(large, Err(FactsError::Store(StoreError::Use { .. }))), "{large:?}");

        fs::remove_file(mount.path().join("fill"))?;
        world.ops(json!([["SET", "/a", 3]]))?;
        assert_eq!(open(&path)?.current().facts().to_value(), json!({"a": 3}), "{left:?}");
    }
    Ok(())
}

#[test]
fn facts_are_read_on_a_read_only_disk_and_changed_when_it_can_be_written_again() -> TestResult {
    for left in [&[][..], &["-wal", "-shm"]] {
        let mount = Mount::new("size=1m,mode=0755")?;
        let path = stored(&mount, left)?;
        mount.remount("ro")?;

        let world = opened(&path, left)?;
        let refused = world.ops(json!([["SET", "/a", 3]]));
        assert!(matches!(refused, Err(FactsError::Store(_))), "{refused:?}");

        mount.remount("rw")?;
        world.ops(json!([["SET", "/a", 3]]))?;
        assert_eq!(open(&path)?.current().facts().to_value(), json!({"a": 3}), "{left:?}");
    }
    Ok(())
}
