//! Facts in layers.

use crankcase_facts::{Tree, effective, explain};
use serde_json::{Value, json};

use crate::support::{TestResult, World, pointer, refused};

fn layered() -> Value {
    json!({
        "ntp": {"server": "ntp.site", "port": 123}, "disks": ["sda"],
        "layers": {
            "role": {"storage": {"disks": ["sdb", "sdc"], "ntp": {"server": "ntp.storage"}}, "edge": {"edge": true}},
            "host": {"h1": {"roles": ["edge", "storage"], "facts": {"ntp": {"server": "ntp.h1"}}}, "h2": {}},
        },
    })
}

#[test]
fn a_host_sees_its_own_layers_over_those_of_its_roles_over_the_site() -> TestResult {
    let world = World::with(layered())?;
    let current = world.facts.current();
    let seen = |host| effective(current.facts(), host).to_value();

    let site = json!({"ntp": {"server": "ntp.site", "port": 123}, "disks": ["sda"]});
    assert_eq!(seen(None), site);
    assert_eq!(seen(Some("h2")), site);
    assert_eq!(seen(Some("unknown")), site);
    let expected =
        json!({"ntp": {"server": "ntp.h1", "port": 123}, "disks": ["sdb", "sdc"], "edge": true});
    assert_eq!(seen(Some("h1")), expected);
    Ok(())
}

#[test]
fn each_layer_says_what_it_sets_and_hides() -> TestResult {
    let world = World::with(layered())?;

    let layers = explain(world.facts.current().facts(), Some("h1"), &pointer("/ntp/server"));

    let said: Vec<_> = layers
        .iter()
        .map(|it| (it.name.as_str(), it.at.to_string(), it.facts.as_ref().map(Tree::to_value)))
        .collect();
    assert_eq!(
        said,
        [
            ("site", "/ntp/server".to_owned(), Some(json!("ntp.site"))),
            ("role edge", "/layers/role/edge/ntp/server".to_owned(), None),
            (
                "role storage",
                "/layers/role/storage/ntp/server".to_owned(),
                Some(json!("ntp.storage"))
            ),
            ("host h1", "/layers/host/h1/facts/ntp/server".to_owned(), Some(json!("ntp.h1"))),
        ]
    );
    Ok(())
}

#[test]
fn what_a_host_sees_has_to_fit_the_schema() -> TestResult {
    let world = World::with(
        json!({"ntp": {}, "layers": {"host": {"h1": {"facts": {"ntp": {"server": "s"}}}}}}),
    )?;

    world.register(
        "/ntp",
        json!({"required": ["server"], "properties": {"server": {"type": "string"}}}),
    )?;

    let error = refused(world.ops(json!([["SET", "/layers/host/h1/facts/ntp/server", 5]])));
    assert_eq!(
        error,
        "/layers/host/h1/facts/ntp/server: as h1 sees it: the value is not of type \"string\""
    );
    Ok(())
}

#[test]
fn layers_that_are_none_are_refused() -> TestResult {
    let world = World::new()?;
    for (layers, with) in [
        (json!([]), "/layers: layers are a map"),
        (json!({"roles": {}}), "/layers/roles: a layer is that of"),
        (json!({"role": {"a": 1}}), "/layers/role/a: the layer of a role is a map"),
        (json!({"host": {"h": {"fact": {}}}}), "/layers/host/h/fact: the layer of a host has"),
        (json!({"host": {"h": {"roles": ["x"]}}}), "/layers/host/h/roles/0: there is no such role"),
        (json!({"host": {"h": {"roles": "x"}}}), "/layers/host/h/roles: roles are a list"),
        (
            json!({"host": {"h": {"facts": 1}}}),
            "/layers/host/h/facts: the facts of a host are a map",
        ),
        (json!({"host": {"h": 1}}), "/layers/host/h: the layer of a host is a map"),
    ] {
        let error = refused(world.load(1, json!({"layers": layers})));
        assert!(error.starts_with(with), "{error} without {with}");
    }
    Ok(())
}

#[test]
fn the_site_has_to_fit_apart_from_what_layers_add() -> TestResult {
    let schema = json!({
        "required": ["port", "server"],
        "properties": {"port": {"type": "integer"}, "server": {"type": "string"}},
    });
    let world = World::with(json!({
        "ntp": {"server": "ntp.site", "port": 1},
        "layers": {"host": {"h1": {"facts": {"ntp": {"port": 2}}}}},
    }))?;
    world.register("/ntp", schema)?;

    world.ops(json!([["DELETE", "/ntp/port"]]))?;
    let error = refused(world.ops(json!([["SET", "/ntp/port", "x"]])));

    assert_eq!(error, "/ntp/port: the value is not of type \"integer\"");
    Ok(())
}

#[test]
fn without_hosts_the_site_alone_has_to_fit() -> TestResult {
    let world = World::with(
        json!({"ntp": {}, "layers": {"host": {"h1": {"facts": {"ntp": {"server": "s"}}}}}}),
    )?;
    world.register("/ntp", json!({"required": ["server"]}))?;

    let error = refused(world.ops(json!([["DELETE", "/layers"]])));

    assert_eq!(error, "/ntp: \"server\" is a required property");
    Ok(())
}

#[test]
fn what_is_fixed_is_fixed_for_each_host() -> TestResult {
    let host = |id: &str| json!({"facts": {"node": {"id": id}}});
    let world = World::with(json!({"node": {}, "layers": {"host": {"h1": host("one")}}}))?;
    world.register("/node", json!({"properties": {"id": {"fixed": true}}}))?;

    let error = refused(world.ops(json!([["SET", "/layers/host/h1/facts/node/id", "two"]])));

    assert!(
        error.starts_with("/layers/host/h1/facts/node/id: as h1 sees it: it stays as it was"),
        "{error}"
    );
    world.ops(json!([["SET", "/layers/host/h2", host("two")]]))?;
    Ok(())
}

#[test]
fn all_that_is_wrong_for_a_host_is_told_where_it_is_set() -> TestResult {
    let world = World::with(json!({"r": {"a": 1}, "layers": {"host": {"h1": {}, "h2": {}}}}))?;
    world.register("/r", json!({"properties": {"a": {"type": "integer"}}}))?;

    let error =
        refused(world.ops(
            json!([["SET", "/r/a", "x"], ["SET", "/layers/host/h2/facts", {"r": {"a": true}}]]),
        ));

    let lines: Vec<_> = error.lines().collect();
    assert_eq!(
        lines,
        [
            "/r/a: the value is not of type \"integer\"",
            "/layers/host/h2/facts/r/a: as h2 sees it: the value is not of type \"integer\"",
        ]
    );
    Ok(())
}
