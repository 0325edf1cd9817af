//! The history, and restored versions.

use crankcase_facts::{Change, FactsError, Schema, Submission, Update, wire};
use serde_json::json;

use crate::support::{TestResult, World, noon, open, pointer, refused};

#[test]
fn each_change_says_who_when_why_and_what_both_ways() -> TestResult {
    let world = World::with(json!({"a": {"b": 1}, "c": 2}))?;
    let update = Update::read(&json!({"version": 2, "author": "brian", "reason": "more room",
                                      "ops": [["SET", "/a/b", 5], ["DELETE", "/c"], ["SET", "/d", {"e": []}]]}))?;

    world.facts.submit(&Submission::new(Change::Update(update), "ada"), noon())?;

    let log = world.facts.log(None, 10)?;
    let newest = serde_json::to_value(wire::Entry::of(&log[0], world.facts.current().schemas()))?;
    let expected = json!({
        "revision": 2, "version": 2, "at": "2027-01-15T08:00:00.000Z", "who": "brian, by ada", "why": "more room",
        "kind": "update", "digest": world.facts.current().digest().to_string(),
        "differences": [{"path": "/a/b", "before": 1, "after": 5}, {"path": "/c", "before": 2},
                        {"path": "/d", "after": {"e": []}}],
    });
    assert_eq!(newest, expected);
    assert_eq!((log[1].kind.as_str(), log[1].who.as_str(), log.len()), ("load", "ada", 2));
    Ok(())
}

#[test]
fn a_path_has_a_history_of_its_own() -> TestResult {
    let world = World::with(json!({"a": {"b": 1}, "c": 2}))?;
    world.ops(json!([["SET", "/c", 3]]))?;
    world.ops(json!([["SET", "/a/b", 4]]))?;
    world.ops(json!([["DELETE", "/a"]]))?;

    let versions = |path| -> TestResult<Vec<u64>> {
        Ok(world.facts.log(Some(&pointer(path)), 10)?.iter().map(|it| it.version).collect())
    };

    assert_eq!(versions("/a/b")?, [4, 3, 1]);
    assert_eq!(versions("/c")?, [2, 1]);
    assert_eq!(world.facts.log(None, 2)?.len(), 2);
    Ok(())
}

#[test]
fn a_follower_of_another_process_misses_no_entry() -> TestResult {
    let world = World::with(json!({"a": 1}))?;
    let follower = open(&world.folder.path().join("facts.db"))?;
    let versions = |after| -> TestResult<Vec<u64>> {
        Ok(follower.since(after)?.iter().map(|it| it.version).collect())
    };
    world.ops(json!([["SET", "/a", 2]]))?;
    follower.refresh()?;
    // Another change comes before the follower has read the first.
    world.ops(json!([["SET", "/a", 3]]))?;

    assert_eq!(versions(1)?, [2]);
    follower.refresh()?;
    assert_eq!(versions(2)?, [3]);
    Ok(())
}

#[test]
fn an_earlier_version_is_restored_as_a_new_one() -> TestResult {
    let world = World::with(json!({"a": {"b": 1}, "c": [1, 2]}))?;
    world.update(
        json!({"version": 5, "ops": [["SET", "/a", {"x": {"y": 1}}], ["DELETE", "/c/0"]]}),
    )?;
    world.update(json!({"version": 9, "ops": [["SET", "/", {"all": "new"}]]}))?;

    world.submit(Change::Restore(5))?;
    assert_eq!(world.value(), json!({"a": {"x": {"y": 1}}, "c": [2]}));
    world.submit(Change::Restore(1))?;
    assert_eq!(world.value(), json!({"a": {"b": 1}, "c": [1, 2]}));
    world.submit(Change::Restore(0))?;
    assert_eq!(world.value(), json!({}));

    assert_eq!(world.facts.current().version(), 12);
    for never in [2, 8, 13] {
        assert!(
            matches!(world.submit(Change::Restore(never)), Err(FactsError::NoVersion(it)) if it == never)
        );
    }
    Ok(())
}

#[test]
fn a_trial_says_what_would_come_and_changes_nothing() -> TestResult {
    let world = World::with(json!({"a": 1}))?;
    let before = world.facts.current();
    let update = Update::read(&json!({"version": 2, "ops": [["SET", "/a", 2]]}))?;
    let mut submission = Submission::new(Change::Update(update), "ada");
    submission.is_trial = true;

    let outcome = world.facts.submit(&submission, noon())?;

    assert_eq!((outcome.version, outcome.differences.len()), (2, 1));
    assert_eq!(world.facts.current(), before);
    submission.expect_version = Some(4);
    let error = refused(world.facts.submit(&submission, noon()));
    assert_eq!(error, "the facts have version 1, and version 4 was expected");
    Ok(())
}

#[test]
fn a_store_without_facts_has_no_file_and_the_first_facts_come_after_the_first_changes() -> TestResult
{
    let world = World::new()?;
    let path = world.folder.path().join("facts.db");
    let schema = |maximum: u64| -> TestResult<Submission> {
        let schema = Schema::read("agent", json!({"maximum": maximum}))?;
        Ok(Submission::new(Change::Register(pointer("/a"), Some(schema)), "agent"))
    };
    world.facts.before_first(&[schema(5)?], noon())?;
    let current = world.facts.current();
    assert_eq!((current.revision(), current.schemas().iter().count()), (0, 1));
    let mut trial = Submission::new(Change::Update(Update::of(vec![])), "ada");
    trial.is_trial = true;

    world.facts.submit(&trial, noon())?;
    assert!(refused(world.load(1, json!({"a": 9}))).contains("/a: "));
    assert!(!path.exists(), "nothing was stored");
    assert_eq!((world.facts.current().revision(), world.facts.log(None, 9)?.len()), (0, 0));
    world.load(1, json!({"a": 4}))?;

    let stored = open(&path)?.current();
    assert_eq!((stored.revision(), stored.schemas().iter().count()), (2, 1));
    world.facts.before_first(&[schema(4)?], noon())?;
    world.ops(json!([["SET", "/a", 5]]))?;
    Ok(())
}
