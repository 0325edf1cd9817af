//! The effect of each operation at each place.

use crankcase_facts::{Change, Degraded, FactsError, Snapshot, Submission, Update};
use serde_json::{Value, json};

use crate::support::{TestResult, World, noon, refused};

fn facts() -> Value {
    json!({"map": {"leaf": 1}, "list": [1, {"in": [2]}, 3], "text": "x"})
}

/// Applies one operation to the facts above, and returns the facts after it.
fn after(op: Value) -> TestResult<Value> {
    let world = World::with(facts())?;
    world.ops(json!([op]))?;
    Ok(world.value())
}

fn with(change: impl FnOnce(&mut Value)) -> Value {
    let mut value = facts();
    change(&mut value);
    value
}

#[test]
fn set_puts_a_value_in_the_place_of_another_or_into_a_map_that_is_there() -> TestResult {
    assert_eq!(after(json!(["SET", "/map/leaf", [1]]))?, with(|it| it["map"]["leaf"] = json!([1])));
    assert_eq!(after(json!(["SET", "/map", {"b": {}}]))?, with(|it| it["map"] = json!({"b": {}})));
    assert_eq!(after(json!(["SET", "/map/new", null]))?, with(|it| it["map"]["new"] = Value::Null));
    assert_eq!(
        after(json!(["SET", "/list/1/in/0", 9]))?,
        with(|it| it["list"][1]["in"][0] = json!(9))
    );
    assert_eq!(
        after(json!(["SET", "/list/1/new", 9]))?,
        with(|it| it["list"][1]["new"] = json!(9))
    );
    assert_eq!(after(json!(["SET", "", {"a": 1}]))?, json!({"a": 1}));
    assert_eq!(
        after(json!({"op": "SET", "path": "/text", "data": 1}))?,
        with(|it| it["text"] = json!(1))
    );
    Ok(())
}

#[test]
fn insert_puts_a_value_where_nothing_is_or_into_a_list() -> TestResult {
    assert_eq!(after(json!(["INSERT", "/map/new", 2]))?, with(|it| it["map"]["new"] = json!(2)));
    let inserted = |list: Value| with(|it| it["list"] = list);
    assert_eq!(after(json!(["INSERT", "/list/0", 0]))?, inserted(json!([0, 1, {"in": [2]}, 3])));
    assert_eq!(after(json!(["INSERT", "/list/3", 4]))?, inserted(json!([1, {"in": [2]}, 3, 4])));
    assert_eq!(after(json!(["INSERT", "/list/-", 4]))?, inserted(json!([1, {"in": [2]}, 3, 4])));
    assert_eq!(
        after(json!(["INSERT", "/list/1/in/-", 4]))?,
        inserted(json!([1, {"in": [2, 4]}, 3]))
    );
    Ok(())
}

#[test]
fn delete_removes_a_value_with_all_in_it() -> TestResult {
    assert_eq!(
        after(json!(["DELETE", "/map"]))?,
        json!({"list": [1, {"in": [2]}, 3], "text": "x"})
    );
    assert_eq!(after(json!(["DELETE", "/map/leaf"]))?, with(|it| it["map"] = json!({})));
    assert_eq!(
        after(json!(["DELETE", "/list/0"]))?,
        with(|it| it["list"] = json!([{"in": [2]}, 3]))
    );
    assert_eq!(after(json!(["DELETE", "/list/1/in"]))?, with(|it| it["list"][1] = json!({})));
    Ok(())
}

#[test]
fn an_operation_that_cannot_be_done_says_why_and_changes_nothing() -> TestResult {
    let world = World::with(facts())?;
    let before = world.facts.current();
    for (op, with) in [
        (json!(["SET", "/no/such/leaf", 1]), "/no: there is no /no"),
        (json!(["SET", "/text/in", 1]), "/text/in: /text is a string, in which nothing is"),
        (json!(["SET", "/list/3", 1]), "/list/3: the list has 3 items, counted from 0"),
        (json!(["SET", "/list/-", 1]), "/list/-: the list has 3 items"),
        (json!(["SET", "/list/01", 1]), "/list/01: the list has 3 items"),
        (json!(["SET", "/", [1]]), "/: the root is a map, not a list"),
        (
            json!(["INSERT", "/map/leaf", 1]),
            "/map/leaf: it is there already; SET puts a value in its place",
        ),
        (json!(["INSERT", "/list/4", 1]), "/list/4: the list has 3 items"),
        (json!(["INSERT", "/", {}]), "/: the root is there already"),
        (json!(["DELETE", "/map/none"]), "/map/none: there is no /map/none"),
        (json!(["DELETE", "/list/3"]), "/list/3: the list has 3 items"),
        (json!(["DELETE", "/"]), "/: the root cannot be deleted"),
        (
            json!(["TEST", "/map/leaf", 2]),
            "/map/leaf: another value is there, and a TEST expects otherwise",
        ),
        (json!(["TEST", "/map/none", 2]), "/map/none: there is no /map/none, and a TEST"),
    ] {
        let error =
            refused(world.ops(json!([["SET", "/map/leaf", 7], ["SET", "/map/leaf", 1], op])));
        assert!(error.starts_with(with), "{error} without {with}");
        assert_eq!(world.facts.current(), before);
    }
    Ok(())
}

#[test]
fn operations_see_what_those_before_them_have_done() -> TestResult {
    let world = World::with(facts())?;

    world.ops(json!([
        ["TEST", "/list", [1, {"in": [2]}, 3]],
        ["INSERT", "/new", {}],
        ["SET", "/new/leaf", 5],
        ["TEST", "/new", {"leaf": 5}],
        ["DELETE", "/list"],
    ]))?;

    assert_eq!(world.value(), json!({"map": {"leaf": 1}, "text": "x", "new": {"leaf": 5}}));
    Ok(())
}

#[test]
fn what_is_strict_can_be_made_lenient() -> TestResult {
    let world = World::with(facts())?;

    world.update(json!({"version": 2, "create_parents": true, "ignore_missing": true,
                        "ops": [["SET", "/a/b/c", 1], ["DELETE", "/none"], ["DELETE", "/none/at/all"]]}))?;

    assert_eq!(world.value()["a"], json!({"b": {"c": 1}}));
    let error = refused(
        world.update(json!({"version": 3, "create_parents": true, "ops": [["SET", "/text/b", 1]]})),
    );
    assert!(error.starts_with("/text/b: /text is a string"), "{error}");
    Ok(())
}

#[test]
fn a_patch_of_rfc_6902_does_what_that_says() -> TestResult {
    let world = World::with(facts())?;

    world.update(json!({"version": 2, "patch": [
        {"op": "test", "path": "/map/leaf", "value": 1},
        {"op": "add", "path": "/map/leaf", "value": 2},
        {"op": "add", "path": "/list/0", "value": 0},
        {"op": "add", "path": "/list/-", "value": 4},
        {"op": "replace", "path": "/text", "value": "y"},
        {"op": "copy", "from": "/map", "path": "/copied"},
        {"op": "move", "from": "/list/2", "path": "/moved"},
        {"op": "remove", "path": "/map"},
    ]}))?;

    let expected =
        json!({"list": [0, 1, 3, 4], "text": "y", "copied": {"leaf": 2}, "moved": {"in": [2]}});
    assert_eq!(world.value(), expected);
    for (op, with) in [
        (
            json!({"op": "replace", "path": "/none", "value": 1}),
            "/none: there is nothing to replace",
        ),
        (json!({"op": "remove", "path": "/none"}), "/none: there is no /none"),
        (
            json!({"op": "move", "from": "/copied", "path": "/copied/in"}),
            "/copied/in: /copied cannot be moved into",
        ),
        (json!({"op": "copy", "from": "/none", "path": "/a"}), "/none: there is no /none"),
    ] {
        let error = refused(world.update(json!({"version": 3, "patch": [op]})));
        assert!(error.starts_with(with), "{error} without {with}");
    }
    Ok(())
}

#[test]
fn many_changes_of_a_long_list_are_as_one_after_another() -> TestResult {
    let items: Vec<_> = (0..1500).map(|at| json!({"at": at})).collect();
    let facts = json!({"long": items.clone(), "other": items, "short": [1, 2]});
    let ops = [
        json!(["INSERT", "/long/0", "first"]),
        json!(["INSERT", "/long/700", {"x": {"b": 1, "a": -0.0}}]),
        json!(["INSERT", "/other/-", "last"]),
        json!(["SET", "/long/700/x/c", 2]),
        json!(["TEST", "/long/700/x", {"a": 0.0, "b": 1, "c": 2}]),
        json!(["DELETE", "/long/1500"]),
        json!(["DELETE", "/long/3"]),
        json!(["MOVE", "/long/0", "/short/0"]),
        json!(["COPY", "/other/1500", "/long/1499"]),
        json!(["SET", "/other/5", "five"]),
        json!(["SET", "/long", ["new"]]),
        json!(["INSERT", "/long/1", "newer"]),
        json!(["INSERT", "/other/1501", "end"]),
    ];
    let (together, alone) = (World::with(facts.clone())?, World::with(facts)?);
    // MOVE and COPY have a form in patches only.
    let patch: Vec<_> = ops
        .iter()
        .map(|op| match (op[0].as_str(), &op[1], op.get(2)) {
            (Some("INSERT"), path, value) => json!({"op": "add", "path": path, "value": value}),
            (Some("SET"), path, value) if path != "/long/700/x/c" => {
                json!({"op": "replace", "path": path, "value": value})
            }
            (Some("SET"), path, value) => json!({"op": "add", "path": path, "value": value}),
            (Some("DELETE"), path, _) => json!({"op": "remove", "path": path}),
            (Some("TEST"), path, value) => json!({"op": "test", "path": path, "value": value}),
            (name, from, path) => {
                json!({"op": name.map(str::to_lowercase), "from": from, "path": path})
            }
        })
        .collect();
    for op in &patch {
        let version = alone.facts.current().version() + 1;
        alone.update(json!({"version": version, "patch": [op]}))?;
    }

    together.update(json!({"version": 2, "patch": patch}))?;

    assert_eq!(together.value(), alone.value());
    assert_eq!(together.facts.current().digest(), alone.facts.current().digest());
    for (op, with) in [
        (json!(["INSERT", "/other/9999", 1]), "the list has 1502 items, counted from 0"),
        (json!(["SET", "/other/1502", 1]), "the list has 1502 items, counted from 0"),
        (json!(["DELETE", "/other/-"]), "the list has 1502 items, counted from 0"),
        (json!(["SET", "/other/01", 1]), "the list has 1502 items, counted from 0"),
    ] {
        let error = refused(together.ops(json!([["SET", "/other/0", 0], op])));
        assert!(error.starts_with(op[1].as_str().unwrap_or_default()), "{error}");
        assert!(error.contains(with), "{error}");
    }
    Ok(())
}

#[test]
fn a_change_is_judged_again_after_another_change() -> TestResult {
    let world = World::with(json!({"n": 1, "m": 1}))?;
    let set = |path: &str| -> TestResult<Submission> {
        let mut update = Update::read(&json!({"version": 2, "ops": [["SET", path, 2]]}))?;
        update.version = None;
        Ok(Submission::new(Change::Update(update), "ada"))
    };
    let (mut asked, other) = (set("/n")?, set("/m")?);
    asked.is_strict = true;
    for facts in [world.facts.trial()?, world.facts.clone()] {
        let judge = |before: &Snapshot, _: &Snapshot| {
            if before.facts().to_value()["m"] == json!(2) {
                return vec![Degraded { name: None, message: "m is 2".to_owned() }];
            }
            facts.submit(&other, noon()).expect("nothing is wrong with it");
            Vec::new()
        };

        let judged = facts.submit_judged(&asked, noon(), &judge);

        assert!(matches!(judged, Err(FactsError::Degrades(_))), "{judged:?}");
        assert_eq!(facts.current().facts().to_value(), json!({"n": 1, "m": 2}));
    }
    Ok(())
}
