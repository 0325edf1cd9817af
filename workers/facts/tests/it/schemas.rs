//! Schemas of facts.

use crankcase_facts::{FactsError, Schema, wire};
use proptest::prelude::*;
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
        (
            json!({"properties": {"fixd": {"sensetive": true}}}),
            "/properties/fixd/sensetive: there is no keyword \"sensetive\"; did you mean \"sensitive\"?",
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

#[test]
fn secrets_in_layers_and_in_lists_are_hidden_by_every_path() -> TestResult {
    let user = json!({"properties": {"password": {"sensitive": true}}});
    let world = World::with(json!({
        "web": {"users": [{"password": "site-pass"}]},
        "layers": {"role": {"r": {"web": {"users": [{"password": "role-pass"}]}}},
                   "host": {"h1": {"roles": ["r"], "facts": {"web": {"users": [{"password": "host-pass"}]}}}}},
    }))?;
    world.register("/web", json!({"properties": {"users": {"items": user}}}))?;
    let current = world.facts.current();

    for path in [
        "/",
        "/web",
        "/web/users",
        "/web/users/0",
        "/layers",
        "/layers/role",
        "/layers/role/r",
        "/layers/host/h1",
        "/layers/host/h1/facts",
        "/layers/host/h1/facts/web/users/0/password",
    ] {
        let shown = current.redacted(&pointer(path)).unwrap_or_default().to_string();
        assert!(shown.contains("(sensitive)") && !shown.contains("-pass"), "{path}: {shown}");
    }
    let paths = current.schemas().secret_paths(current.facts());
    assert_eq!(paths.len(), 3, "{paths:?}");
    Ok(())
}

#[test]
fn what_one_schema_hides_another_does_not_show() -> TestResult {
    let world = World::with(json!({"web": {"password": "short-pass"}}))?;
    world.register("/web", json!({"properties": {"password": {"sensitive": true}}}))?;

    let long = json!({"properties": {"web": {"properties": {"password": {"minLength": 20}}}}});
    let Err(FactsError::Invalid(invalid)) = world.register("/", long) else {
        return Err("it fits".into());
    };

    assert_eq!(
        (invalid.violations[0].value.as_deref(), invalid.violations[0].is_secret),
        (None, true)
    );
    Ok(())
}

#[test]
fn secrets_are_found_below_all_keywords() -> TestResult {
    let secret = json!({"sensitive": true});
    for (schema, facts) in [
        (json!({"prefixItems": [{}, secret]}), json!([1, "the-pass"])),
        (json!({"contains": secret}), json!(["the-pass"])),
        (
            json!({"dependentSchemas": {"a": {"properties": {"b": secret}}}}),
            json!({"a": 1, "b": "the-pass"}),
        ),
        (json!({"unevaluatedProperties": secret}), json!({"a": "the-pass"})),
        (
            json!({"$schema": "http://json-schema.org/draft-07/schema#", "items": [{}], "additionalItems": secret}),
            json!([1, "the-pass"]),
        ),
        (json!({"if": {}, "then": {"properties": {"b": secret}}}), json!({"b": "the-pass"})),
        (
            json!({"$ref": "#/$defs/a%20b", "$defs": {"a b": {"patternProperties": {"^(?=b)": secret}}}}),
            json!({"b": "the-pass"}),
        ),
    ] {
        let world = World::with(json!({"x": facts}))?;
        world.register("/x", schema.clone())?;
        let shown = world.facts.current().redacted(&pointer("/")).unwrap_or_default().to_string();
        assert!(!shown.contains("the-pass"), "{schema}: {shown}");
    }
    for key in ["$dynamicRef", "$recursiveRef"] {
        let error = Schema::read("ada", json!({"items": {key: "#"}}))
            .map_or_else(|it| it.to_string(), |_| String::new());
        assert!(error.contains("is not understood"), "{error}");
    }
    Ok(())
}

#[test]
fn nothing_that_may_hold_a_secret_is_shown_for_debugging() -> TestResult {
    let world = World::with(json!({"a": "the-pass"}))?;
    let update =
        crankcase_facts::Update::read(&json!({"version": 2, "ops": [["SET", "/a", "the-pass"]]}))?;
    let submission =
        crankcase_facts::Submission::new(crankcase_facts::Change::Update(update), "ada");

    let shown = format!("{:?} {submission:?} {:?}", world.facts, wire::Request::of(&submission));

    assert!(!shown.contains("the-pass"), "{shown}");
    Ok(())
}

#[test]
fn a_hostile_schema_is_refused_or_costs_little() {
    let chain: serde_json::Map<String, Value> = (0..3000)
        .map(|at| (format!("d{at}"), json!({"$ref": format!("#/$defs/d{}", at + 1)})))
        .collect();
    let mut chain = json!({"$ref": "#/$defs/d0", "$defs": chain});
    chain["$defs"]["d3000"] = json!({});
    let error =
        Schema::read("ada", chain).map_or_else(|it| it.to_string(), |_| "it was read".into());
    assert!(error.contains("$ref follow each other"), "{error}");

    let many: serde_json::Map<String, Value> =
        (0..12).map(|at| (format!("p{at}"), json!({"$ref": "#"}))).collect();
    let example = crankcase_facts::example(&json!({"type": "object", "properties": many}));
    assert!(example.is_object());
}

#[test]
fn violations_beyond_the_bound_are_counted() -> TestResult {
    let world = World::with(json!({"known": {}}))?;
    world.register("/n", json!({"additionalProperties": {"type": "integer"}}))?;
    world.register("/u", json!({"additionalProperties": false, "properties": {"a": {}}}))?;
    let many = |value: Value| -> Value {
        (0..3000)
            .map(|at| (format!("x{at}"), value.clone()))
            .collect::<serde_json::Map<_, _>>()
            .into()
    };

    let Err(FactsError::Invalid(invalid)) =
        world.ops(json!([["SET", "/n", many(json!("x"))], ["SET", "/u", many(json!(1))]]))
    else {
        return Err("it fits".into());
    };

    assert_eq!((invalid.violations.len(), invalid.omitted), (1000, 5000));
    Ok(())
}

/// A schema with most parts that can be checked on their own, and some that cannot.
fn rich() -> Value {
    json!({
        "type": "object",
        "propertyNames": {"maxLength": 2},
        "properties": {
            "a": {"type": "object", "required": ["a"], "additionalProperties": {"type": "integer", "minimum": 0}},
            "b": {"$ref": "#/$defs/b"},
            "c": {"type": "object", "minProperties": 1, "patternProperties": {"^\\d+$": {"type": "integer"}},
                  "additionalProperties": {"type": ["string", "object"]}},
        },
        "additionalProperties": {"anyOf": [{"type": "integer"}, {"required": ["b"]}]},
        "$defs": {"b": {"type": "object", "properties": {"b": {"$ref": "#/$defs/b"}, "a": {"enum": [1, "x"]}},
                        "additionalProperties": false, "maxProperties": 2}},
    })
}

fn any_value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(json!(0)),
        Just(json!(1)),
        Just(json!(-1)),
        Just(json!("x")),
        Just(json!({}))
    ];
    let name =
        prop_oneof![Just("a"), Just("b"), Just("c"), Just("1"), Just("\u{663}"), Just("abc")];
    leaf.prop_recursive(3, 12, 3, move |inner| {
        proptest::collection::btree_map(name.clone(), inner, 0..3).prop_map(|map| {
            map.into_iter()
                .map(|(name, value)| (name.to_owned(), value))
                .collect::<serde_json::Map<_, _>>()
                .into()
        })
    })
}

fn any_operation() -> impl Strategy<Value = Value> {
    let name =
        prop_oneof![Just("a"), Just("b"), Just("c"), Just("1"), Just("\u{663}"), Just("abc")];
    let path =
        proptest::collection::vec(name, 1..4).prop_map(|names| format!("/x/{}", names.join("/")));
    prop_oneof![
        3 => (path.clone(), any_value()).prop_map(|(path, value)| json!(["SET", path, value])),
        1 => path.prop_map(|path| json!(["DELETE", path])),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    /// The check of a change has the same result as a check of all facts.
    #[test]
    fn a_change_is_judged_as_all_facts_would_be(updates in proptest::collection::vec(any_operation(), 1..12)) {
        let judged = World::new().map_err(|error| TestCaseError::fail(error.to_string()))?;
        let free = World::new().map_err(|error| TestCaseError::fail(error.to_string()))?;
        let start = json!([["SET", "/x", {}]]);
        for world in [&judged, &free] {
            world.ops(start.clone()).map_err(|error| TestCaseError::fail(error.to_string()))?;
        }
        judged.register("/x", rich()).map_err(|error| TestCaseError::fail(error.to_string()))?;
        for operation in updates {
            let before = free.facts.current();
            let is_done = free.ops(json!([operation])).is_ok();
            // All facts against the whole schema.
            let fits = is_done && {
                let whole = World::with(free.value()).map_err(|error| TestCaseError::fail(error.to_string()))?;
                whole.register("/x", rich()).is_ok()
            };
            let is_accepted = judged.ops(json!([operation])).is_ok();
            prop_assert_eq!(is_accepted, fits, "{}", operation);
            if is_done && !fits {
                let version = free.facts.current().version() + 1;
                let back = free.load(version, before.facts().to_value());
                prop_assert!(back.is_ok());
            }
        }
    }
}

#[test]
fn a_skeleton_has_names_that_fit_their_pattern() -> TestResult {
    let fits =
        json!({"type": "object", "patternProperties": {"^[a-z]+[0-9]$": {"type": "integer"}}});
    let named = json!({"type": "object", "propertyNames": {"pattern": "^[A-Z]$"},
                       "additionalProperties": {"type": "boolean"}});
    let odd = json!({"patternProperties": {"^x{40}$": {}}, "type": "object"});
    let world = World::new()?;
    world.register("/fits", fits)?;
    world.register("/named", named)?;
    world.register("/odd", odd)?;
    world.register("/nameless", json!({"examples": [{"": 1}]}))?;

    let skeleton = crankcase_facts::skeleton(world.facts.current().schemas()).to_value();

    let expected = json!({"fits": {"name1": 0}, "named": {"A": false}, "odd": {"^x{40}$": null}, "nameless": null});
    assert_eq!(skeleton, expected);
    Ok(())
}
