//! Watchers that are notified of a change.

use crankcase_facts::Tree;
use serde_json::{Map, Value, json};

use crate::support::{TestResult, World, pointer};

#[test]
fn of_a_thousand_watchers_one_is_told() -> TestResult {
    let many: Map<String, Value> =
        (0..1000).map(|at| (format!("f{at}"), json!({"v": at}))).collect();
    let world = World::with(json!({"many": many}))?;
    let watchers: Vec<_> =
        (0..1000).map(|at| world.facts.watch(&pointer(&format!("/many/f{at}/v")))).collect();

    world.ops(json!([["SET", "/many/f7/v", "new"], ["SET", "/many/f8/v", 8]]))?;

    let told = watchers.iter().enumerate().filter(|(_, it)| it.has_changed().unwrap_or(true));
    assert_eq!(told.map(|(at, _)| at).collect::<Vec<_>>(), [7]);
    let seen = watchers[7].borrow().as_ref().map(Tree::to_value);
    assert_eq!(seen, Some(json!("new")));
    Ok(())
}

#[test]
fn who_watches_a_path_is_told_of_all_above_and_below_it() -> TestResult {
    let world = World::with(json!({"a": {"b": {"c": 1}}, "x": 1}))?;
    let mut watchers: Vec<_> = ["/", "/a", "/a/b", "/a/b/c", "/a/b/none", "/x"]
        .map(|path| world.facts.watch(&pointer(path)))
        .into();
    let mut told = || -> Vec<bool> {
        let told = watchers.iter_mut().map(|it| {
            let has_changed = it.has_changed().unwrap_or(false);
            it.mark_unchanged();
            has_changed
        });
        told.collect()
    };

    world.ops(json!([["SET", "/a/b/c", 2]]))?;
    assert_eq!(told(), [true, true, true, true, false, false]);
    world.ops(json!([["DELETE", "/a"]]))?;
    assert_eq!(told(), [true, true, true, true, false, false]);
    world.ops(json!([["SET", "/a", {"b": {"none": 0}}]]))?;
    assert_eq!(told(), [true, true, true, false, true, false]);
    Ok(())
}

#[test]
fn what_another_process_commits_is_taken_over() -> TestResult {
    let world = World::with(json!({"a": 1}))?;
    let other = crate::support::open(&world.folder.path().join("facts.db"))?;
    let watcher = other.watch(&pointer("/a"));
    assert!(!other.refresh()?);

    world.ops(json!([["SET", "/a", 2]]))?;

    assert!(other.refresh()?);
    assert_eq!(watcher.borrow().as_ref().map(Tree::to_value), Some(json!(2)));
    Ok(())
}
