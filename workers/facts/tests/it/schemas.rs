//! What facts have to fit.

use crankcase_facts::{FactsError, Schema, wire};
use serde_json::{Value, json};

use crate::support::{TestResult, World, pointer, refused};

fn lines(result: Result<crankcase_facts::Outcome, FactsError>) -> Vec<String> {
    refused(result).lines().map(str::to_owned).collect()
}

#[test]
fn all_violations_are_told_with_path_value_and_help() -> TestResult {
    let world = World::new()?;
    let host = json!({"type": "object", "additionalProperties": false, "required": ["mac"],
                      "properties": {"mac": {"format": "mac"}, "cores": {"type": "integer"}}});
    world.register(
        "/hosts",
        json!({"propertyNames": {"format": "fqdn"}, "additionalProperties": host}),
    )?;

    let errors = lines(world.load(
        1,
        json!({"hosts": {
            "h1.example.com": {"mac": "00:50:56:00:00:zz", "cores": "two"},
            "h2": {"mac": "00:50:56:00:00:01", "coers": 2},
            "h3.example.com": {},
        }}),
    ));

    assert_eq!(
        errors,
        [
            "/hosts/h1.example.com/cores: the value is not of type \"integer\"",
            "/hosts/h1.example.com/mac: the value is not a \"mac\"; a MAC address is six pairs of hexadecimal digits, such as \
         00:50:56:00:00:01",
            "/hosts/h2/coers: the schema knows no such fact; did you mean \"cores\"?",
            "/hosts/h3.example.com: \"mac\" is a required property",
            "/hosts/h2: the name is not a \"fqdn\"; a host is named in full, such as h1.example.com",
        ]
    );
    Ok(())
}

#[test]
fn only_the_whole_of_an_update_has_to_fit() -> TestResult {
    let world = World::with(json!({"a": {"low": 1, "high": 2}}))?;
    world.register(
        "/a",
        json!({"properties": {"low": {"type": "integer"}, "high": {"type": "integer"}},
                                "required": ["low", "high"]}),
    )?;

    world.ops(json!([["DELETE", "/a/low"], ["SET", "/a/high", "x"], ["SET", "/a", {"low": 5, "high": 6}]]))?;

    assert_eq!(
        lines(world.ops(json!([["DELETE", "/a/low"]]))),
        ["/a: \"low\" is a required property"]
    );
    Ok(())
}

#[test]
fn a_new_schema_that_the_facts_do_not_fit_is_refused_and_the_old_one_stays() -> TestResult {
    let world = World::with(json!({"a": {"n": "x"}}))?;
    world.register("/a", json!({"properties": {"n": {"type": "string"}}}))?;
    let before = world.facts.current();

    let errors = lines(world.register("/a", json!({"properties": {"n": {"type": "integer"}}})));

    assert_eq!(errors, ["/a/n: the value is not of type \"integer\""]);
    assert_eq!(world.facts.current().schemas(), before.schemas());
    Ok(())
}

#[test]
fn a_schema_that_is_none_is_refused_with_the_place_in_it() {
    for (schema, with) in [
        (json!({"type": "objekt"}), "/type: this is not"),
        (
            json!({"properties": {"a": {"$ref": "#/$defs/no"}}}),
            "/properties/a/$ref: \"#/$defs/no\" leads to nothing",
        ),
        (
            json!({"$ref": "https://example.com/x"}),
            "/$ref: \"https://example.com/x\" leads to nothing",
        ),
        (json!({"format": "fqnd"}), "/format: there is no format \"fqnd\"; did you mean \"fqdn\"?"),
        (json!({"items": {"sensitive": 1}}), "/items/sensitive: \"sensitive\" is true or false"),
        (
            json!({"propertyNames": {"references": "/a"}}),
            "/propertyNames/references: \"references\" is a path",
        ),
        (json!({"patternProperties": {"(": {}}}), "/patternProperties/("),
        (json!({"title": "x".repeat(2_000_000)}), "/: the schema has 2000012 bytes"),
    ] {
        let error =
            Schema::read("ada", schema).map_or_else(|it| it.to_string(), |_| "it was read".into());
        assert!(error.starts_with(with), "{error} without {with}");
    }
}

#[test]
fn what_is_referred_to_has_to_be_there() -> TestResult {
    let world = World::with(
        json!({"racks": {"0": {"hosts": {"h1": {}, "h2": {}}}}, "servers": {}, "first": "h1"}),
    )?;
    world.register("/servers", json!({"propertyNames": {"references": "/racks/*/hosts/*"}}))?;
    world.register("/first", json!({"references": "/racks/*/hosts/*"}))?;

    let added = lines(world.ops(json!([["SET", "/servers/h3", {}]])));
    assert_eq!(
        added,
        ["/servers/h3: there is no \"h3\" at /racks/*/hosts/*; did you mean \"h1\"?"]
    );
    world.ops(json!([["SET", "/servers/h2", {}]]))?;
    let removed = lines(world.ops(json!([["DELETE", "/racks/0/hosts/h2"]])));
    assert_eq!(removed.len(), 1, "{removed:?}");
    assert!(removed[0].starts_with("/servers/h2: there is no \"h2\""), "{removed:?}");
    let gone = lines(world.ops(json!([["DELETE", "/racks"]])));
    assert_eq!(gone.len(), 2, "{gone:?}");
    world.ops(json!([["DELETE", "/servers/h2"], ["DELETE", "/racks/0/hosts/h2"]]))?;
    Ok(())
}

#[test]
fn what_is_fixed_stays_as_long_as_its_map_is_there() -> TestResult {
    let node = json!({"properties": {"host": {"type": "string", "fixed": true}}});
    let world = World::with(json!({"nodes": {"n1": {"host": "h1", "x": 1}}}))?;
    world.register("/nodes", json!({"additionalProperties": node}))?;

    for ops in [
        json!([["SET", "/nodes/n1/host", "h2"]]),
        json!([["DELETE", "/nodes/n1/host"]]),
        json!([["SET", "/nodes/n1", {"host": "h2"}]]),
        json!([["DELETE", "/nodes/n1"], ["SET", "/nodes/n1", {"host": "h2"}]]),
        json!([["SET", "/", {"nodes": {"n1": {"host": "h2"}}}]]),
    ] {
        assert_eq!(lines(world.ops(ops)), ["/nodes/n1/host: it stays as it was set first"]);
    }
    world.ops(json!([["SET", "/nodes/n1/x", 2], ["SET", "/nodes/n2", {"host": "h2"}]]))?;
    world.ops(json!([["DELETE", "/nodes/n1"]]))?;
    Ok(())
}

#[test]
fn secrets_are_in_nothing_that_is_shown() -> TestResult {
    let world = World::with(
        json!({"bmc": {"user": "root", "password": "hunter2", "keys": [{"key": "k1k1k1"}]}}),
    )?;
    let key = json!({"properties": {"key": {"type": "string", "sensitive": true}}});
    let schema = json!({"properties": {"password": {"type": "string", "minLength": 5, "sensitive": true},
                                       "keys": {"items": key}}});
    world.register("/bmc", schema)?;

    world.ops(
        json!([["SET", "/bmc/password", "hunter3"], ["SET", "/bmc/keys", [{"key": "k2k2k2"}]]]),
    )?;
    let wrong =
        world.ops(json!([["SET", "/bmc/password", 424_242], ["SET", "/bmc/keys/0/key", 434_343]]));

    let current = world.facts.current();
    let schemas = current.schemas();
    let shown = current.redacted(&pointer("/")).unwrap_or_default();
    let hidden =
        json!({"user": "root", "password": "(sensitive)", "keys": [{"key": "(sensitive)"}]});
    assert_eq!(shown, json!({"bmc": hidden}));
    assert_eq!(current.redacted(&pointer("/bmc/password")), Some(json!("(sensitive)")));
    assert_eq!(current.redacted(&pointer("/bmc/keys/0/key")), Some(json!("(sensitive)")));
    let log = world.facts.log(None, 10)?;
    let log: Vec<Value> = log.iter().map(|it| json!(wire::Entry::of(it, schemas))).collect();
    let Err(wrong) = wrong else { return Err("a number was taken for a password".into()) };
    let refusal = json!(wire::Refusal::of(&wrong, schemas));
    for text in ["hunter", "k1k1", "k2k2", "424242", "434343"] {
        let all = format!("{shown} {} {refusal} {wrong}", Value::from(log.clone()));
        assert!(!all.contains(text), "{text} in {all}");
    }
    let mut secrets = Vec::new();
    schemas.secrets(current.facts(), &mut |text| secrets.push(text.to_owned()));
    secrets.sort();
    assert_eq!(secrets, ["hunter3", "k2k2k2"]);
    Ok(())
}

#[test]
fn a_skeleton_has_all_that_the_schema_names() {
    let schema = json!({"type": "object", "properties": {
        "port": {"type": "integer", "minimum": 1}, "name": {"type": "string", "examples": ["www"]},
        "hosts": {"type": "object", "propertyNames": {"format": "fqdn"}, "additionalProperties": {"$ref": "#/$defs/h"}},
        "tags": {"type": "array", "items": {"enum": ["a", "b"]}}},
        "$defs": {"h": {"type": "object", "properties": {"on": {"type": "boolean"}, "more": {"$ref": "#/$defs/h"}}}}});

    let example = crankcase_facts::example(&schema);

    assert_eq!(
        (&example["port"], &example["name"], &example["tags"]),
        (&json!(1), &json!("www"), &json!(["a"]))
    );
    assert_eq!(example["hosts"]["h1.example.com"]["on"], json!(false));
}
