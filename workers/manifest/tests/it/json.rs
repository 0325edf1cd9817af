//! JSON is read by its own rules.

use std::error::Error;
use std::fs;

use crankcase_resources::dynamic::Config;
use crankcase_resources::front::{Inputs, Rendered};
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::site::Site;

type Result = std::result::Result<(), Box<dyn Error>>;

/// Makes a site of one file with a name.
fn site(name: &str, text: &str) -> std::io::Result<Site> {
    let site = Site::new("")?;
    fs::remove_file(site.path("site.yaml"))?;
    site.write(name, text)?;
    Ok(site)
}

fn config(name: &str, text: &str) -> std::result::Result<Config, Box<dyn Error>> {
    let site = site(name, text)?;
    let manifest = site.load()?;
    match manifest.declarations()[0].config.render(&Inputs::default())? {
        Rendered::Known { config, .. } => Ok(config),
        Rendered::Unknown { because } => Err(format!("unknown: {because:?}").into()),
    }
}

fn manifest(config: &str) -> String {
    format!("{{\"resources\": {{\"a\": {{\"type\": \"file\", \"config\": {config}}}}}}}")
}

#[test]
fn escapes_and_numbers_are_those_of_json() -> Result {
    let long = "k".repeat(5_000);
    let values = format!(
        "{{\"a\": \"\\/\\ud83d\\ude00\\u00e9\\b\", \"b\":[1,-0.5e+2, true ,null],\t\"{long}\"\t:\r\n{{}},\
         \"c\": \"\u{7f}#: &x *y <<\", \"<<\": \"x\", \"d\": 18446744073709551615}}"
    );
    let expected = json!({
        "a": "/😀é\u{8}", "b": [1, -50.0, true, null], long: {},
        "c": "\u{7f}#: &x *y <<", "<<": "x", "d": 18_446_744_073_709_551_615_u64,
    });
    assert_eq!(Value::Object(config("site.json", &manifest(&values))?), expected);
    // Under another name it is read as JSON as well if it is a map in JSON, and else as YAML.
    assert_eq!(Value::Object(config("site.yaml", &manifest(&values))?), expected);
    assert_eq!(config("site.yaml", &manifest("{\"a\": yes, }"))?["a"], "yes");
    Ok(())
}

#[test]
fn what_only_yaml_has_is_refused_with_its_place() -> Result {
    let cases = [
        ("", "1:1: the file is empty"),
        (" \n\t", "1:1: the file is empty"),
        ("vars: {}", "1:1: not JSON: expected a value, not \"vars\""),
        ("# no\n{}", "1:1: not JSON: expected a value, not \"#\""),
        ("{vars: {}}", "1:2: not JSON: expected a key in double quotes, not \"vars\""),
        ("{'vars': {}}", "1:2: not JSON: expected a key in double quotes, not \"\\'vars\\'\""),
        ("{\"vars\": {},\n}", "2:1: not JSON: expected a key in double quotes, not \"}\""),
        ("{\"vars\" {}}", "1:9: not JSON: expected \":\", not \"{\""),
        ("{\"vars\": {}", "1:12: not JSON: expected \",\" or \"}\", not the end of the file"),
        ("{\"vars\": {}} {}", "1:14: not JSON: expected the end, not \"{\""),
        ("---\n{}", "1:1: not JSON: expected a value, not \"---\""),
        ("{\"vars\": {\"é\": &x 1}}", "1:16: not JSON: expected a value, not \"&x\""),
        ("{\"vars\": {\"a\": yes}}", "1:16: not JSON: expected a value, not \"yes\""),
        ("{\"vars\": {\"a\": True}}", "1:16: not JSON: expected a value, not \"True\""),
        ("{\"vars\": {\"a\": 0x1f}}", "1:16: not JSON: expected a value, not \"0x1f\""),
        ("{\"vars\": {\"a\": +1}}", "1:16: not JSON: expected a value, not \"+1\""),
        ("{\"vars\": {\"a\": 1.}}", "1:16: not JSON: expected a value, not \"1.\""),
        ("{\"vars\": {\"a\": 1-2}}", "1:16: not JSON: expected a value, not \"1-2\""),
        ("{\"vars\": {\"a\": [1 2]}}", "1:19: not JSON: expected \",\" or \"]\", not \"2\""),
        ("{\"vars\": {\"a\": 1e999}}", "1:16: \"1e999\" is not a finite number"),
        (
            "{\"vars\": {\"a\": 07}}",
            "1:16: \"07\" is a number with a leading zero, which some read as octal",
        ),
        ("{\"vars\": {\"a\": \"x}}", "1:16: not JSON: unclosed quote"),
        ("{\"vars\": {\"a\": \"\\x41\"}}", "1:16: not JSON: invalid escape"),
        ("{\"vars\": {\"a\": \"\\ud83d\"}}", "1:16: not JSON: unexpected end of hex escape"),
        (
            "{\"vars\": {\"a\": \"x\ny\"}}",
            "1:16: not JSON: control character (\\u0000-\\u001F) found while parsing a string",
        ),
        ("{\"vars\": {\"a\": 1,\n  \"\\u0061\": 2}}", "2:3: duplicate key \"a\", first on line 1"),
        ("{\"vars\": {\"a\": \"é {{ b }}\"}}", "1:22: unknown name \"b\""),
        (&"[".repeat(65), "1:65: nested deeper than 64 levels"),
    ];
    for (text, expected) in cases {
        let site = site("site.json", text)?;
        let said = site.said(site.load());
        assert_eq!(said.lines().next(), Some(format!("site.json:{expected}").as_str()), "{text}");
    }
    Ok(())
}

#[test]
fn the_bounds_are_those_of_yaml() -> Result {
    let values = format!("{{\"vars\": {{\"a\": [1{}]}}}}", ",1".repeat(1_000_000));
    let site = site("site.json", &values)?;
    let bound = "more than 1,000,000 values, those that aliases stand for included";
    assert_eq!(site.said(site.load()), format!("site.json:1:2000011: {bound}"));
    Ok(())
}

#[test]
fn a_key_and_its_value_are_one_value() -> Result {
    let entries: Vec<_> = (0..600_000).map(|index| format!("\"{index}\": 1")).collect();
    let map = format!("\"vars\": {{\"a\": {{{}}}}}", entries.join(", "));
    for (name, text) in [("site.json", format!("{{{map}}}")), ("site.yaml", map)] {
        let site = site(name, &text)?;
        assert_eq!(site.said(site.load()), "valid");
    }
    Ok(())
}

/// Returns values without texts that expressions would be found in.
fn value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        (-1e9..1e9).prop_map(Value::from),
        "\\PC{0,8}|[\"\\\\\\n\\t/]{0,4}".prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 24, 4, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            proptest::collection::vec(("\\PC{0,6}", inner), 0..4)
                .prop_map(|entries| Value::Object(entries.into_iter().collect())),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn what_serde_json_writes_is_read_as_it_was(value in value(), is_pretty in any::<bool>()) {
        let written = json!({"resources": {"a": {"type": "file", "config": {"x": value}}}});
        let text = if is_pretty { format!("{written:#}") } else { written.to_string() };
        prop_assume!(!value.to_string().contains("{%") && !value.to_string().contains("{{"));
        let read = config("site.json", &text);
        let read = read.map_err(|err| TestCaseError::fail(err.to_string()))?;
        prop_assert_eq!(&read["x"], &written["resources"]["a"]["config"]["x"]);
    }
}
