//! The violations of a document are reported all at once, each with its place.

use crankcase_facts::{Change, FactsError, Invalid, Load, Pointer, Update, wire};
use serde_json::{Value, json};

use crate::support::{TestResult, World, refused};

fn places(invalid: &Invalid) -> Vec<String> {
    let place = |it: &crankcase_facts::Violation| {
        it.document.as_ref().map(Pointer::to_string).unwrap_or_default()
    };
    invalid.violations.iter().map(|it| format!("{} {it}", place(it))).collect()
}

fn update_errors(document: Value) -> Vec<String> {
    Update::read(&document).map_or_else(|error| places(&error), |_| Vec::new())
}

#[test]
fn everything_that_is_wrong_with_an_update_is_told() {
    let document = json!({
        "version": -1, "resaon": "x", "author": "a\nb", "create_parents": 1, "base_version": 1.5,
        "ops": [["PUT", "/a", 1], ["SET", "/a~2", 1], ["SET", "a", 1], ["SET", "/a"], ["DELETE", "/a", 1],
                [1], "SET", {"op": "SET", "path": "/a", "value": 1}, ["set", "/a", 1], {"path": "/a"}],
    });

    let errors = update_errors(document);

    let expected = [
        "/resaon /resaon: an update has no key \"resaon\"; did you mean \"reason\"?",
        "/version /version: a version is a whole number from 1 to 9223372036854775807, not -1",
        "/base_version /base_version: a version is a whole number",
        "/author /author: \"author\" has control characters; it is one line",
        "/create_parents /create_parents: \"create_parents\" is true or false, not a number",
        "/ops/0/0 /ops/0/0: there is no operation \"PUT\"; there are SET, INSERT, DELETE, TEST",
        "/ops/1/1 /ops/1/1: \"/a~2\" is no path to a fact: at character 3 \"~\" is written \"~0\"",
        "/ops/2/1 /ops/2/1: \"a\" is no path to a fact: at character 1 there is no \"/\"",
        "/ops/3 /ops/3: SET takes data",
        "/ops/4/2 /ops/4/2: DELETE takes no data",
        "/ops/5 /ops/5: an operation is [OP, PATH, DATA], not 1 items",
        "/ops/6 /ops/6: an operation is [OP, PATH, DATA], not a string",
        "/ops/7/value /ops/7/value: an operation has no key \"value\"; there are op, path, data",
        "/ops/8/0 /ops/8/0: there is no operation \"set\"; did you mean \"SET\"?",
        "/ops/9 /ops/9: \"op\" is missing",
    ];
    assert_eq!(errors.len(), expected.len(), "{errors:#?}");
    for (error, expected) in errors.iter().zip(expected) {
        assert!(error.starts_with(expected), "{error} is not {expected}");
    }
}

#[test]
fn a_version_is_a_whole_number_of_63_bits() {
    for (version, with) in [
        (json!(0), "not 0"),
        (json!(-7), "not -7"),
        (json!(1.5), "not 1.5"),
        (json!(2.0), "not 2.0"),
        (json!(1u64 << 63), "not 9223372036854775808"),
        (json!("7"), "not a string"),
        (json!(null), "not null"),
    ] {
        let errors = update_errors(json!({"version": version, "ops": []}));
        assert!(errors.len() == 1 && errors[0].contains(with), "{errors:?} without {with}");
    }
    assert!(update_errors(json!({"version": i64::MAX, "ops": []})).is_empty());
    assert_eq!(update_errors(json!({"ops": []})).len(), 1, "it is required");
    assert_eq!(update_errors(json!({"version": 1})).len(), 1, "so are operations");
    assert_eq!(update_errors(json!({"version": 1, "ops": [], "patch": []})).len(), 1);
    assert_eq!(update_errors(json!([])).len(), 1);
}

#[test]
fn only_a_higher_version_is_accepted() -> TestResult {
    let world = World::with(json!({}))?;
    world.update(json!({"version": 7, "ops": [["SET", "/a", 1]]}))?;

    for version in [7, 6, 1] {
        let refused = world.update(json!({"version": version, "ops": [["SET", "/a", 2]]}));
        let is_stale =
            matches!(refused, Err(FactsError::Stale { given, stored: 7 }) if given == version);
        assert!(is_stale, "{version}");
    }
    let error = refused(world.update(json!({"version": 7, "ops": []})));
    assert_eq!(error, "stale facts version 7: the store is at 7");
    world.update(json!({"version": 100, "ops": [["SET", "/a", 3]]}))?;
    assert_eq!((world.value(), world.facts.current().version()), (json!({"a": 3}), 100));
    Ok(())
}

#[test]
fn a_base_version_has_to_be_the_one_that_is_stored() -> TestResult {
    let world = World::with(json!({"a": 1}))?;

    let error =
        refused(world.update(json!({"version": 9, "base_version": 0, "ops": [["SET", "/a", 2]]})));

    assert_eq!(error, "the facts have version 1, and version 0 was expected");
    world.update(json!({"version": 9, "base_version": 1, "ops": [["SET", "/a", 2]]}))?;
    Ok(())
}

#[test]
fn a_document_of_facts_is_read_as_a_whole() {
    let errors = |document: Value| {
        Load::read(&document, false).map_or_else(|it| places(&it), |_| Vec::new())
    };
    let mut deep = json!(1);
    for _ in 0..65 {
        deep = json!({"a": deep});
    }

    assert_eq!(errors(json!({"version": 1, "facts": {}})), Vec::<String>::new());
    assert_eq!(errors(json!({"version": 1})), ["/ /: \"facts\" is missing"]);
    assert_eq!(
        errors(json!({"facts": []})),
        ["/ /: \"version\" is missing", "/facts /facts: \"facts\" is a map, not a list"]
    );
    assert_eq!(
        errors(json!({"version": 1, "fact": {}, "facts": {"": 1}})),
        ["/fact /fact: a document of facts has no key \"fact\"; did you mean \"facts\"?",]
            .into_iter()
            .chain(["/facts/ /facts/: the name of a fact has at least 1 byte and at most 1,024"])
            .map(str::to_owned)
            .collect::<Vec<_>>()
    );
    let deep = errors(json!({"version": 1, "facts": deep}));
    assert!(deep.len() == 1 && deep[0].ends_with("it is nested deeper than 64 levels"), "{deep:?}");
    assert_eq!(errors(json!("x")), ["/ /: a document of facts is a map, not a string"]);
}

#[test]
fn an_update_is_written_as_it_is_read() -> TestResult {
    let document = json!({"version": 3, "base_version": 2, "author": "ada", "reason": "more", "create_parents": true,
        "patch": [{"op": "add", "path": "/a", "value": 1}, {"op": "move", "from": "/a", "path": "/b"},
                  {"op": "remove", "path": "/b"}, {"op": "test", "path": "/c", "value": null}]});
    let update = Update::read(&document)?;

    let again = Update::read(&update.to_value())?;

    assert_eq!(again.to_value(), update.to_value());
    assert_eq!(again.operations, update.operations);
    Ok(())
}

#[test]
fn what_is_asked_over_a_socket_is_what_was_meant() -> TestResult {
    let world = World::with(json!({"a": 1}))?;
    let schema = crankcase_facts::Schema::read("ada", json!({"type": "integer"}))?;
    for change in [
        Change::Update(Update::read(&json!({"version": 4, "ops": [["SET", "/a", null]]}))?),
        crate::support::load(5, json!({"b": {}}), true)?,
        Change::Restore(1),
        Change::Register("/a".parse()?, Some(schema)),
    ] {
        let mut submission = crankcase_facts::Submission::new(change, "ada");
        submission.why = Some("because".to_owned());
        submission.expect_version = Some(3);
        submission.overwrites = vec!["/a/b".parse()?];
        let request = wire::Request::of(&submission).ok_or("it cannot be sent")?;
        let sent = serde_json::to_string(&request)?;
        let read: wire::Request = serde_json::from_str(&sent)?;
        let read = read.submission()?;
        assert_eq!(wire::Request::of(&read).map(|it| serde_json::json!(it)), Some(json!(request)));
    }
    drop(world);
    Ok(())
}

#[test]
fn what_is_too_large_for_an_agent_is_refused_by_every_store() -> TestResult {
    let world = World::new()?;
    let text = "x".repeat(1024 * 1024);
    let texts = |count: usize| -> serde_json::Map<_, _> {
        (0..count).map(|at| (format!("t{at}"), json!(text))).collect()
    };

    let error = refused(world.load(1, json!(texts(32))));
    assert!(error.contains("and at most 33554432 (32 MiB) are taken; make it in parts"), "{error}");
    let error = refused(world.update(json!({"version": 1, "ops": [["SET", "/t", texts(32)]]})));
    assert!(error.contains("as JSON, and at most 33554432"), "{error}");

    // The request for a change of this size fits, whatever its form is.
    world.load(1, json!(texts(31)))?;
    Ok(())
}
