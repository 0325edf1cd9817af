//! Tests that only root can run. Without root, `.ci/test` counts them as skipped.

use std::path::Path;
use std::process::Command;

use crankcase_facts::{Facts, FactsError, Sqlite, StoreError};
use serde_json::json;
use tempfile::TempDir;

use crate::support::{TestResult, World};

/// A small file system in memory, until it is dropped.
struct Mount(TempDir);

impl Mount {
    fn new(options: &str) -> TestResult<Self> {
        let folder = tempfile::tempdir()?;
        let mount = Command::new("mount")
            .args(["-t", "tmpfs", "-o", options, "crankcase-test"])
            .arg(folder.path())
            .output()?;
        if mount.status.success() { Ok(Self(folder)) } else { Err(format!("{mount:?}").into()) }
    }

    fn path(&self) -> &Path {
        self.0.path()
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        // Lazily, because the store is dropped after the mount.
        let unmounted = Command::new("umount").arg("-l").arg(self.path()).status();
        assert!(unmounted.is_ok_and(|status| status.success()), "it cannot be unmounted");
    }
}

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
