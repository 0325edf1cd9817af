//! A history, schemas and a document that are not what was written.

use std::path::Path;

use crankcase_facts::{Change, Facts, FactsError, Sqlite, StoreError, wire};
use rusqlite::Connection;
use serde_json::json;

use crate::support::{TestResult, World, open};

/// Changes the file of a store as damage would.
fn damage(path: &Path, sql: &str) -> TestResult {
    let changed = Connection::open(path)?.execute(sql, [])?;
    assert_eq!(changed, 1, "{sql}");
    Ok(())
}

/// Returns facts with a history of five versions.
fn five() -> TestResult<World> {
    let world = World::with(json!({"a": 1, "b": {"c": 1}}))?;
    world.ops(json!([["SET", "/a", 2]]))?;
    world.ops(json!([["SET", "/b/c", 3], ["SET", "/d", {}]]))?;
    world.ops(json!([["SET", "/a", 4]]))?;
    world.ops(json!([["DELETE", "/d"]]))?;
    Ok(world)
}

#[test]
fn a_version_behind_a_damaged_entry_is_not_restored() -> TestResult {
    for (sql, version) in [
        ("UPDATE entry SET differences = '[[\"/a\",[9],[2]]]' WHERE revision = 2", 2),
        ("UPDATE entry SET differences = '[[\"/a\",[1],[9]]]' WHERE revision = 2", 2),
        ("UPDATE entry SET differences = '[[\"/x\",[1],[2]]]' WHERE revision = 2", 2),
        ("UPDATE entry SET differences = '[]' WHERE revision = 2", 2),
        ("UPDATE entry SET differences = '[[\"/a\"' WHERE revision = 2", 2),
        ("UPDATE entry SET digest = 'none' WHERE revision = 2", 2),
        ("UPDATE entry SET version = 4 WHERE revision = 2", 3),
        ("DELETE FROM entry WHERE revision = 2", 3),
        ("DELETE FROM entry WHERE revision = 5", 5),
        ("UPDATE entry SET digest = replace(digest, '0', '1') WHERE revision = 5", 5),
    ] {
        let world = five()?;
        damage(&world.folder.path().join("facts.db"), sql)?;

        let refused = world.submit(Change::Restore(1));

        let Err(error @ FactsError::Damaged { version: found, .. }) = refused else {
            return Err(format!("{sql}: {refused:?}").into());
        };
        assert_eq!(found, version, "{sql}");
        let refusal = wire::Refusal::of(&error, world.facts.current().schemas());
        assert_eq!(refusal.code, wire::RefusalCode::Invalid);
        assert_eq!(world.value(), json!({"a": 4, "b": {"c": 3}}), "nothing has changed");
    }
    Ok(())
}

#[test]
fn a_version_before_a_damaged_entry_is_restored() -> TestResult {
    for sql in [
        "UPDATE entry SET differences = '[[\"/a\",[9],[2]]]' WHERE revision = 2",
        "UPDATE entry SET differences = '[[\"/a\"' WHERE revision = 2",
        "UPDATE entry SET differences = CAST(x'5b5bff' AS TEXT) WHERE revision = 2",
        "UPDATE entry SET who = CAST(x'ff' AS TEXT), digest = '' WHERE revision = 2",
    ] {
        let world = five()?;
        damage(&world.folder.path().join("facts.db"), sql)?;

        world.submit(Change::Restore(3))?;

        assert_eq!(world.value(), json!({"a": 2, "b": {"c": 3}, "d": {}}), "{sql}");
        let refused = world.submit(Change::Restore(0));
        assert!(
            matches!(refused, Err(FactsError::Damaged { version: 2, .. })),
            "{sql}: {refused:?}"
        );
    }
    Ok(())
}

#[test]
fn the_history_is_read_up_to_a_damaged_entry() -> TestResult {
    for sql in [
        "UPDATE entry SET digest = '' WHERE revision = 2",
        "UPDATE entry SET at = -1 WHERE revision = 2",
        "UPDATE entry SET at = 9223372036854775807 WHERE revision = 2",
    ] {
        let world = five()?;
        damage(&world.folder.path().join("facts.db"), sql)?;

        let mut history = world.facts.history(None);

        let newer: Vec<_> = history.by_ref().take(3).map(|it| it.map(|it| it.version)).collect();
        assert!(matches!(newer[..], [Ok(5), Ok(4), Ok(3)]), "{sql}: {newer:?}");
        let damaged = history.next();
        let is_found = matches!(damaged, Some(Err(StoreError::Entry { version: 2, .. })));
        assert!(is_found, "{sql}: {damaged:?}");
        assert!(history.next().is_none());
    }
    Ok(())
}

#[test]
fn schemas_and_a_document_that_are_damaged_are_not_used() -> TestResult {
    let world = World::with(json!({"a": 1}))?;
    world.register("/a", json!({"maximum": 5}))?;
    world.ops(json!([["SET", "/a", 2]]))?;
    let path = world.folder.path().join("facts.db");
    let reopened = || Facts::open(Box::new(Sqlite::open(&path)?));

    damage(&path, "UPDATE document SET facts = '{\"a\":2}'")?;
    let merged = world.merge(9, json!({"a": 5}));
    assert!(matches!(merged, Err(FactsError::Store(StoreError::Damaged { .. }))), "{merged:?}");
    assert_eq!(reopened()?.current().facts().to_value(), json!({"a": 2}));
    damage(&path, "UPDATE schema SET schema = '{\"maximum\":7}'")?;
    let opened = reopened();
    assert!(matches!(opened, Err(StoreError::Damaged { .. })), "{opened:?}");

    // A program that knows no seals has changed the schema, or made the file.
    damage(&path, "UPDATE state SET revision = revision + 1")?;
    assert!(reopened().is_ok());
    Connection::open(&path)?.execute_batch("DROP TABLE seal")?;
    let again = World { facts: open(&path)?, folder: tempfile::tempdir()? };
    again.ops(json!([["SET", "/a", 3]]))?;
    damage(&path, "DELETE FROM schema")?;
    assert!(matches!(reopened(), Err(StoreError::Damaged { .. })));
    Ok(())
}
