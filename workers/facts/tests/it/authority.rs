//! The owners of facts, and the effect of a document on them.

use crankcase_facts::{Change, FactsError, Operation, Submission, wire};
use serde_json::json;

use crate::support::{TestResult, World, load, noon, pointer, refused};

#[test]
fn what_the_agent_writes_is_its_own_and_changes_no_version() -> TestResult {
    let world = World::with(json!({"host": {"disk": "sda"}}))?;

    world.own("watcher", "/host/seen/at", json!(1))?;
    world.own("watcher", "/host/seen/at", json!(2))?;

    let current = world.facts.current();
    assert_eq!((current.version(), current.revision()), (1, 3));
    let owned: Vec<_> =
        current.owned().iter().map(|(path, owner)| format!("{path} {owner}")).collect();
    assert_eq!(owned, ["/host/seen/at watcher"]);
    let same = world.own("watcher", "/host/seen/at", json!(2))?;
    assert_eq!((same.revision, same.differences.len()), (3, 0), "what is so already is not noted");
    Ok(())
}

#[test]
fn the_agent_writes_over_no_fact_of_others() -> TestResult {
    let world = World::with(json!({"host": {"disk": "sda"}}))?;
    world.own("watcher", "/seen", json!(1))?;

    let users = refused(world.own("watcher", "/host/disk", json!("sdb")));
    let others = refused(world.own("prober", "/seen", json!(2)));

    assert_eq!(users, "facts of others would be overwritten: /host/disk is of a user");
    assert_eq!(others, "facts of others would be overwritten: /seen is of watcher");
    let delete = Change::Own(vec![Operation::Delete(pointer("/seen"))]);
    world.facts.submit(&Submission::new(delete, "watcher"), noon())?;
    world.own("prober", "/seen", json!(2))?;
    Ok(())
}

#[test]
fn a_user_overwrites_facts_of_the_agent_only_by_naming_them() -> TestResult {
    let world = World::with(json!({"a": {}}))?;
    world.own("watcher", "/a/seen", json!(1))?;
    world.own("watcher", "/b", json!(1))?;

    for change in
        [json!([["SET", "/a/seen", 2]]), json!([["DELETE", "/a"]]), json!([["SET", "/", {"b": 1}]])]
    {
        let error = refused(world.ops(change));
        assert_eq!(error, "facts of others would be overwritten: /a/seen is of watcher");
    }
    let dropped = refused(world.load(2, json!({"a": {}})));
    assert_eq!(
        dropped,
        "facts of others would be overwritten: /a/seen is of watcher, /b is of watcher"
    );
    world.load(2, json!({"a": {"seen": 1}, "b": 1, "c": 1}))?;
    let mut submission = Submission::new(load(3, json!({"b": 1}), false)?, "ada");
    submission.overwrites = vec![pointer("/a")];
    let outcome = world.facts.submit(&submission, noon())?;
    assert_eq!(outcome.overwritten.len(), 1);
    assert!(world.facts.current().owned().iter().map(|(path, _)| path).eq([&pointer("/b")]));
    Ok(())
}

#[test]
fn a_document_takes_the_place_of_all_facts_and_says_what_it_drops() -> TestResult {
    let world = World::with(json!({"a": 1, "b": {"c": 2}}))?;
    world.ops(json!([["SET", "/d", 4]]))?;

    let outcome = world.load(3, json!({"a": 1, "b": {"e": 5}}))?;

    let gone = outcome.differences.iter().filter(|it| it.after.is_none());
    assert_eq!(gone.map(|it| it.path.to_string()).collect::<Vec<_>>(), ["/b/c", "/d"]);
    assert_eq!(world.value(), json!({"a": 1, "b": {"e": 5}}));
    Ok(())
}

#[test]
fn a_merge_keeps_what_was_changed_beside_the_document() -> TestResult {
    let world = World::with(json!({"a": 1, "b": {"c": 2, "gone": 0}, "same": 1}))?;
    world.ops(json!([["SET", "/b/c", 20], ["SET", "/d", 4], ["SET", "/same", 7]]))?;
    world.own("watcher", "/seen", json!(true))?;

    world.merge(10, json!({"a": 11, "b": {"c": 2, "new": {"x": 1}}, "same": 7}))?;

    let expected =
        json!({"a": 11, "b": {"c": 20, "new": {"x": 1}}, "d": 4, "same": 7, "seen": true});
    assert_eq!(world.value(), expected);
    Ok(())
}

#[test]
fn what_both_have_changed_is_a_conflict_and_data() -> TestResult {
    let world = World::with(json!({"a": 1, "b": {"c": 2}, "k": 1}))?;
    world.ops(json!([["SET", "/a", 2], ["DELETE", "/b"]]))?;
    let before = world.facts.current();

    let refused = world.merge(3, json!({"a": 3, "b": {"c": 5}, "k": 9}));

    let Err(error @ FactsError::Conflicts(_)) = refused else { return Err("it was merged".into()) };
    assert_eq!(error.to_string(), "the document and the stored facts have both changed /a, /b");
    let told = serde_json::to_value(wire::Refusal::of(&error, before.schemas()))?;
    assert_eq!(told["code"], "conflict");
    assert_eq!(
        told["conflicts"],
        json!([
            {"path": "/a", "base": 1, "document": 3, "stored": 2},
            {"path": "/b", "base": {"c": 2}, "document": {"c": 5}},
        ])
    );
    assert_eq!(world.facts.current(), before);
    Ok(())
}

#[test]
fn the_agent_takes_nothing_that_is_there_and_is_not_its_own() -> TestResult {
    let world = World::with(json!({"x": {"u": 1}}))?;

    let taken = refused(world.own("watcher", "/x", json!({"u": 1, "a": 2})));

    assert_eq!(taken, "facts of others would be overwritten: /x is of a user");
    world.own("watcher", "/y/b", json!({"z": 1}))?;
    let inside = refused(world.own("prober", "/y/b/c", json!(1)));
    let around = refused(world.own("prober", "/y", json!({"b": {"z": 1}, "c": 2})));
    assert_eq!(
        (inside.as_str(), around.as_str()),
        (
            "facts of others would be overwritten: /y/b is of watcher",
            "facts of others would be overwritten: /y/b is of watcher",
        )
    );
    world.own("prober", "/y/d", json!(1))?;
    Ok(())
}

#[test]
fn a_restore_leaves_what_the_agent_knows() -> TestResult {
    let world = World::with(json!({"u": 1}))?;
    world.own("watcher", "/seen", json!(1))?;
    world.ops(json!([["SET", "/u", 2]]))?;
    world.own("watcher", "/seen", json!(2))?;

    world.submit(Change::Restore(1))?;

    assert_eq!(world.value(), json!({"u": 1, "seen": 2}));
    world.own("watcher", "/seen", json!(3))?;
    Ok(())
}
