//! The JSON Schema that a type has for the configs of its resources.

use std::collections::BTreeSet;

use crankcase_resources::AttributeError;
use crankcase_workers::read_pointer_segment;
use jsonschema::{Draft, PatternOptions, Validator};
use serde_json::Value;

/// The largest schema, in bytes of JSON, and how deep it may be.
const LARGEST: usize = 1024 * 1024;
const DEEPEST: usize = 64;

/// How often a regular expression may go back in one text.
const BACKTRACKS: usize = 100_000;

/// How many errors of one config are told.
const MOST: usize = 20;

/// A schema for configs.
#[derive(Debug)]
pub(crate) struct ConfigSchema {
    validator: Validator,
    /// What was noticed while it was read.
    pub(crate) warning: Option<String>,
}

impl ConfigSchema {
    /// Reads a schema. One that does not say of which draft it is is one of 2020-12 or, if it cannot be,
    /// of Draft 7 or 4.
    ///
    /// # Errors
    ///
    /// When it is none, refers to something elsewhere, or is too large or deep.
    pub(crate) fn read(schema: &Value) -> Result<Self, String> {
        let size = schema.to_string().len();
        if size > LARGEST {
            return Err(format!("it has {size} bytes, and at most {LARGEST} are read"));
        }
        if is_deeper(schema, DEEPEST) {
            return Err(format!("it is more than {DEEPEST} levels deep"));
        }
        if schema.get("$schema").is_some() {
            let validator = build(schema, None)?;
            return Ok(Self { validator, warning: None });
        }
        let first = match build(schema, Some(Draft::Draft202012)) {
            Ok(validator) => return Ok(Self { validator, warning: None }),
            Err(error) => error,
        };
        for (draft, name) in [(Draft::Draft7, "Draft 7"), (Draft::Draft4, "Draft 4")] {
            if let Ok(validator) = build(schema, Some(draft)) {
                let warning = format!("it is read as {name}, for as 2020-12 it is wrong: {first}");
                return Ok(Self { validator, warning: Some(warning) });
            }
        }
        Err(first)
    }

    /// Returns what is wrong with a config, whatever becomes known of the attributes that are not known
    /// yet. `resource` is named in the messages.
    pub(crate) fn errors(
        &self,
        resource: &str,
        (config, unknown): (&Value, &BTreeSet<String>),
    ) -> Vec<AttributeError> {
        let errors = self.validator.iter_errors(config).filter_map(|error| {
            let path = error.instance_path().to_string();
            let attribute = path.split('/').nth(1).unwrap_or_default();
            let attribute = read_pointer_segment(attribute).unwrap_or_default().into_owned();
            let keyword = error.schema_path().to_string();
            // Under a choice such as anyOf, what is not known yet may still decide.
            let is_sure = unknown.is_empty()
                || !unknown.contains(&attribute) && is_of_one_attribute(&keyword);
            let at = dotted(resource, &path);
            let attribute = if attribute.is_empty() { "config".to_owned() } else { attribute };
            let message = format!("illegal config for '{at}': {}", shown(&error.to_string()));
            is_sure.then(|| AttributeError::new(&attribute, message))
        });
        errors.take(MOST).collect()
    }
}

fn build(schema: &Value, draft: Option<Draft>) -> Result<Validator, String> {
    let options = jsonschema::options();
    let options = match draft {
        Some(draft) => options.with_draft(draft),
        None => options,
    };
    let patterns = PatternOptions::fancy_regex().backtrack_limit(BACKTRACKS);
    let options = options.offline().with_pattern_options(patterns);
    options.build(schema).map_err(|error| shown(&error.to_string()))
}

/// Returns whether a keyword of a schema judges an attribute apart from all others.
fn is_of_one_attribute(keyword: &str) -> bool {
    let mut parts = keyword.split('/').skip(1);
    match parts.next() {
        Some("properties" | "patternProperties" | "additionalProperties" | "required") => true,
        Some(other) => other == "propertyNames",
        None => false,
    }
}

/// Writes a JSON pointer as people write paths: `disks[0].size`.
fn dotted(resource: &str, pointer: &str) -> String {
    let mut path = format!("{resource}.config");
    for part in pointer.split('/').skip(1) {
        let part = read_pointer_segment(part).unwrap_or_default();
        if part.bytes().all(|byte| byte.is_ascii_digit()) && !part.is_empty() {
            path.push_str(&format!("[{part}]"));
        } else {
            path.push('.');
            path.push_str(&part);
        }
    }
    path
}

/// Returns a message of bounded length.
fn shown(message: &str) -> String {
    crankcase_resources::cut_after(message, 500)
}

fn is_deeper(value: &Value, levels: usize) -> bool {
    match value {
        Value::Array(items) => levels == 0 || items.iter().any(|it| is_deeper(it, levels - 1)),
        Value::Object(map) => levels == 0 || map.values().any(|it| is_deeper(it, levels - 1)),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use serde_json::{Value, json};

    use super::ConfigSchema;

    fn errors(schema: &Value, config: &Value, unknown: &[&str]) -> Vec<String> {
        let unknown: BTreeSet<_> = unknown.iter().map(|name| (*name).to_owned()).collect();
        let schema = ConfigSchema::read(schema).unwrap_or_else(|error| panic!("{error}"));
        let errors = schema.errors("r1", (config, &unknown));
        errors.into_iter().map(|error| format!("{}: {}", error.attribute, error.message)).collect()
    }

    #[test]
    fn a_config_is_judged_with_the_place_in_it() {
        let schema = json!({"properties": {"disks": {"items": {"properties": {"size": {"type": "integer"}}}}},
                            "required": ["zone"]});

        let found = errors(&schema, &json!({"disks": [{"size": "big"}]}), &[]);

        assert_eq!(
            found,
            [
                "config: illegal config for 'r1.config': \"zone\" is a required property",
                "disks: illegal config for 'r1.config.disks[0].size': \"big\" is not of type \"integer\"",
            ]
        );
    }

    #[test]
    fn of_what_is_not_known_yet_nothing_is_said() {
        let schema = json!({"properties": {"a": {"type": "integer"}, "b": {"type": "integer"}},
                            "anyOf": [{"properties": {"a": {"const": 1}}}, {"required": ["z"]}]});

        let found = errors(&schema, &json!({"a": null, "b": "x"}), &["a"]);

        assert_eq!(
            found,
            ["b: illegal config for 'r1.config.b': \"x\" is not of type \"integer\""]
        );
    }

    #[test]
    fn old_drafts_are_understood_with_a_warning() {
        let draft4 = json!({"properties": {"n": {"maximum": 5, "exclusiveMaximum": false}}});

        let schema = ConfigSchema::read(&draft4);

        let warning = schema.map(|schema| schema.warning).unwrap_or_default().unwrap_or_default();
        assert!(
            warning.starts_with("it is read as Draft 4, for as 2020-12 it is wrong: "),
            "{warning}"
        );
        assert_eq!(errors(&draft4, &json!({"n": 6}), &[]).len(), 1);
        assert_eq!(errors(&draft4, &json!({"n": 5}), &[]).len(), 0);
    }

    #[test]
    fn what_is_no_schema_or_is_elsewhere_is_refused() {
        let mut deep = json!({});
        for _ in 0..100 {
            deep = json!({"not": deep});
        }
        for wrong in [
            json!({"type": "objekt"}),
            json!({"$ref": "https://example.com/schema.json"}),
            json!({"$ref": "file:///etc/passwd"}),
            json!({"$ref": "#/nowhere"}),
            json!({"$schema": "https://example.com/none", "type": "object"}),
            json!({"description": "x".repeat(2_000_000)}),
            deep,
        ] {
            assert!(ConfigSchema::read(&wrong).is_err(), "{}", wrong.to_string().len());
        }
    }

    #[test]
    fn a_hostile_schema_ends() {
        let circle = json!({"$ref": "#"});
        let pattern = json!({"properties": {"a": {"pattern": "^(a+)+$"}}});

        let _unless_refused = ConfigSchema::read(&circle)
            .map(|schema| schema.errors("r1", (&json!({}), &BTreeSet::new())).len());
        let text = "a".repeat(100) + "b";
        let found = errors(&pattern, &json!({"a": text}), &[]);

        assert_eq!(found.len(), 1, "{found:?}");
    }
}
