//! The JSON Schema that a type has for the configs of its resources.

use std::collections::BTreeSet;

use crankcase_resources::AttributeError;
use crankcase_workers::read_pointer_segment;
use jsonschema::{Draft, PatternOptions, Validator};
use serde_json::Value;

use crate::schema::graph::Graph;
use crate::schema::pattern::Patterns;
use crate::schema::steps::{Steps, TooMany};

mod graph;
mod maps;
mod pattern;
mod steps;

/// The largest schema, in bytes of JSON, and how deep it may be.
const LARGEST: usize = 1024 * 1024;
const DEEPEST: usize = 64;

/// How many steps it may take to judge a config: less than a second. The steps are counted before the config is judged,
/// as if each alternative were tried to its end.
const MOST_STEPS: usize = 2_000_000;

/// The most steps for a list of all errors: each step may add an error, and all are kept until the last step.
const MOST_TOLD: usize = 100_000;

/// How often a regular expression may go back in one text.
const BACKTRACKS: usize = 20_000;

/// The stack of the thread that reads a schema, in bytes. Its parts may be 1,000 levels deep.
const STACK: usize = 32 * 1024 * 1024;

/// The most errors of one config that are shown.
const MOST: usize = 20;

/// A schema for configs.
#[derive(Debug)]
pub(crate) struct ConfigSchema {
    validator: Validator,
    graph: Graph,
    /// A warning about the schema, found while it was read.
    pub(crate) warning: Option<String>,
}

impl ConfigSchema {
    /// Reads a schema. A schema that names no draft is one of 2020-12 or, if it cannot be, of Draft
    /// 7 or 4.
    ///
    /// # Errors
    ///
    /// When it is no schema, refers to something elsewhere, or is too large, too deep or too much work.
    pub(crate) fn read(schema: &Value) -> Result<Self, String> {
        let size = schema.to_string().len();
        if size > LARGEST {
            return Err(format!("it has {size} bytes, and at most {LARGEST} are read"));
        }
        if is_deeper(schema, DEEPEST) {
            return Err(format!("it is more than {DEEPEST} levels deep"));
        }
        let patterns = Patterns::of(schema)?;
        let graph = Graph::of(schema, &patterns)?;
        let (validator, warning) = std::thread::scope(|scope| {
            let reading = std::thread::Builder::new().stack_size(STACK);
            let reading = reading.spawn_scoped(scope, || read(schema, &patterns));
            let reading = reading.map_err(|error| format!("it cannot be read: {error}"))?;
            reading.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        })?;
        Ok(Self { validator, graph, warning })
    }

    /// Returns the errors of a config that no value of the unknown attributes can make right. The messages name
    /// `resource`.
    pub(crate) fn errors(
        &self,
        resource: &str,
        (config, unknown): (&Value, &BTreeSet<String>),
    ) -> Vec<AttributeError> {
        let whole = |wrong: &str| {
            let message = format!("illegal config for '{resource}.config': {wrong}");
            vec![AttributeError::new("config", message)]
        };
        match Steps::of(&self.graph, config, MOST_STEPS) {
            Err(TooMany) => {
                let wrong = format!(
                    "its config_schema takes more than {MOST_STEPS} steps to judge it, or too many levels"
                );
                return whole(&wrong);
            }
            Ok(steps) if steps > MOST_TOLD => {
                // The unknown attributes may still make it right.
                let is_right = !unknown.is_empty() || self.validator.is_valid(config);
                let wrong = "it does not match its config_schema; it is too much work to say where";
                return if is_right { Vec::new() } else { whole(wrong) };
            }
            Ok(_) => {}
        }
        let errors = self.validator.iter_errors(config).filter_map(|error| {
            let path = error.instance_path().to_string();
            let attribute = path.split('/').nth(1).unwrap_or_default();
            let attribute = read_pointer_segment(attribute).unwrap_or_default().into_owned();
            let keyword = error.schema_path().to_string();
            // Under a choice such as anyOf, an unknown attribute may still decide.
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

/// Reads a schema as the first draft that it can be of. Also returns a warning about it, if there
/// is one.
fn read(schema: &Value, patterns: &Patterns) -> Result<(Validator, Option<String>), String> {
    let build = |draft| build(schema, draft, patterns);
    if schema.get("$schema").is_some() {
        return Ok((build(None)?, None));
    }
    let first = match build(Some(Draft::Draft202012)) {
        Ok(validator) => return Ok((validator, None)),
        Err(error) => error,
    };
    for (draft, name) in [(Draft::Draft7, "Draft 7"), (Draft::Draft4, "Draft 4")] {
        if let Ok(validator) = build(Some(draft)) {
            let warning = format!("it is read as {name}, because it is wrong as 2020-12: {first}");
            return Ok((validator, Some(warning)));
        }
    }
    Err(first)
}

fn build(schema: &Value, draft: Option<Draft>, patterns: &Patterns) -> Result<Validator, String> {
    let options = jsonschema::options();
    let options = match draft {
        Some(draft) => options.with_draft(draft),
        None => options,
    };
    let limits = PatternOptions::fancy_regex().backtrack_limit(BACKTRACKS);
    let limits = limits.size_limit(patterns.most).dfa_size_limit(patterns.cache);
    let options = options.offline().with_pattern_options(limits);
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
    crankcase_resources::dynamic::cut_after(message, 500)
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
            warning.starts_with("it is read as Draft 4, because it is wrong as 2020-12: "),
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
    fn a_regular_expression_that_goes_back_ends() {
        let pattern = json!({"properties": {"a": {"pattern": "^(?!b)(a+)+$"}}});

        let text = "a".repeat(100) + "b";
        let found = errors(&pattern, &json!({"a": text}), &[]);

        assert_eq!(found.len(), 1, "{found:?}");
    }

    /// Returns a schema whose parts each stand in the next one twice, in this way.
    fn doubled(levels: usize, twice: impl Fn(Value) -> Value) -> Value {
        let mut defs = json!({"d0": {"const": 1}});
        for level in 1..=levels {
            defs[format!("d{level}")] = twice(json!({"$ref": format!("#/$defs/d{}", level - 1)}));
        }
        json!({"$defs": defs, "$ref": format!("#/$defs/d{levels}")})
    }

    #[test]
    fn alternatives_that_double_are_refused_before_they_are_tried() {
        let ways: [fn(Value) -> Value; 4] = [
            |it| json!({"anyOf": [it, it]}),
            |it| json!({"oneOf": [it, it, false]}),
            |it| json!({"allOf": [it, {"not": it}]}),
            |it| json!({"if": it, "then": it, "dependentSchemas": {"a": it}}),
        ];
        for twice in ways {
            let few = errors(&doubled(4, twice), &json!({"a": 2}), &[]);
            let many = errors(&doubled(28, twice), &json!({"a": 2}), &[]);
            let later = errors(&doubled(28, twice), &json!({"a": null}), &["a"]);

            assert!(!few.iter().any(|error| error.contains("steps")), "{few:?}");
            for many in [many, later] {
                assert!(
                    many.len() == 1 && many[0].contains("takes more than 2000000 steps"),
                    "{many:?}"
                );
            }
        }
        // A costly part that judges no value of this config does no harm.
        let aside = json!({"properties": {"other": doubled(28, |it| json!({"anyOf": [it, it]}))}});
        let aside = aside.to_string().replace("#/$defs", "#/properties/other/$defs");
        let aside = serde_json::from_str(&aside).unwrap_or_default();
        assert_eq!(errors(&aside, &json!({"a": 2}), &[]), [""; 0]);
    }

    #[test]
    fn what_refers_to_itself_is_taken_unless_that_has_no_end() {
        let tree = json!({"properties": {"left": {"$ref": "#"}, "right": {"$ref": "#"},
            "value": {"type": "integer"}}, "additionalProperties": false});
        let mut config = json!({"value": 1});
        for _ in 0..50 {
            config = json!({"left": config, "right": {"value": "x"}});
        }

        let found = errors(&tree, &config, &[]);

        assert_eq!(found.len(), 20, "{found:?}");
        for circle in [
            json!({"$ref": "#"}),
            json!({"allOf": [{"$ref": "#"}]}),
            json!({"$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"not": {"$ref": "#/$defs/a"}}}, "$ref": "#/$defs/a"}),
            json!({"$defs": {"a": {"$anchor": "x", "anyOf": [{"$ref": "#x"}]}}, "$ref": "#x"}),
            json!({"$schema": "http://json-schema.org/draft-07/schema#", "definitions": {"a": {"$ref": "#/definitions/a"}}, "properties": {"p": {"$ref": "#/definitions/a"}}}),
        ] {
            let error = ConfigSchema::read(&circle).err().unwrap_or_default();
            assert!(error.contains("refers to itself without end"), "{circle}: {error}");
        }
    }

    #[test]
    fn a_tree_of_references_is_refused_before_it_is_read() {
        let mut defs = json!({"d0": true});
        for level in 1..=6_000 {
            defs[format!("d{level}")] =
                json!({"properties": {"a": {"$ref": format!("#/$defs/d{}", level - 1)}}});
        }
        let chain = json!({"$defs": defs, "$ref": "#/$defs/d6000"});
        let mut good = chain.clone();
        good["$ref"] = "#/$defs/d300".into();

        let deep = ConfigSchema::read(&chain).err().unwrap_or_default();
        let wide: Vec<Value> = (0..20_000).map(|number| json!({"const": number})).collect();
        let wide = ConfigSchema::read(&json!({"anyOf": wide})).err().unwrap_or_default();

        assert!(deep.contains("more than 1000 levels deep"), "{deep}");
        assert!(wide.contains("it has more than 16384 parts"), "{wide}");
        assert!(ConfigSchema::read(&good).is_ok());
    }

    #[test]
    fn references_that_may_mean_much_are_refused_before_they_are_followed() {
        let with_ids = |count: usize, references: usize| {
            let ids = (0..count).map(|at| (format!("d{at}"), json!({"$id": format!("n{at}")})));
            let references = vec![json!({"$ref": "#"}); references];
            let schema = json!({"$defs": Value::Object(ids.collect()), "anyOf": references});
            ConfigSchema::read(&schema).err().unwrap_or_default()
        };

        let (references, ids) = (with_ids(300, 300), with_ids(1_000, 1));

        assert!(references.contains("may mean more than 65536 parts"), "{references}");
        assert!(ids.contains("more than 1000 parts of it have an id"), "{ids}");
    }

    #[test]
    fn regular_expressions_are_refused_before_they_take_too_much() {
        let one = |pattern: &str| json!({"properties": {"a": {"pattern": pattern}}});
        let all = |pattern: fn(usize) -> String| {
            let all: Vec<Value> =
                (0..200).map(|number| json!({"pattern": pattern(number)})).collect();
            json!({"properties": {"a": {"anyOf": all}}})
        };

        for right in [
            one("^[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?$"),
            one("^(?!-)[a-z0-9-]{1,63}(?<!-)$"),
            one(r"^\d{1,3}(\.\d{1,3}){3}$"),
            all(|number| format!("^name-{number}-[a-z]+$")),
        ] {
            assert!(ConfigSchema::read(&right).is_ok(), "{}", right.to_string().len());
        }
        for wrong in [
            all(|number| format!("^(?:[^/]{{1,255}}/){{{}}}$", 10 + number)),
            all(|number| format!("^(?!x)\\w{{1,{}}}(?=y)z(?!{number})$", 100 + number)),
            one(&format!("^{}$", "(?:a{1000}){1000}")),
        ] {
            assert!(ConfigSchema::read(&wrong).is_err(), "{}", wrong.to_string().len());
        }
    }

    #[test]
    fn a_long_text_costs_what_its_regular_expression_takes() {
        let schema = json!({"properties": {"a": {"pattern": "^(?:[^/]{1,255}/){8}$"}}});

        let short = errors(&schema, &json!({"a": "x"}), &[]);
        let long = errors(&schema, &json!({"a": "x".repeat(1_000_000)}), &[]);

        assert!(short[0].contains("does not match"), "{short:?}");
        assert!(long[0].contains("takes more than 2000000 steps"), "{long:?}");
    }

    #[test]
    fn what_is_large_is_judged_and_told_as_a_whole() {
        let schema = json!({"properties": {"all": {"items": {"properties": {
            "name": {"type": "string", "pattern": "^[a-z0-9-]+$"}, "size": {"type": "integer"}}}}}});
        let item = json!({"name": "a", "size": 1});
        let mut config = json!({"all": vec![item; 30_000]});

        let right = errors(&schema, &config, &[]);
        config["all"][29_999]["size"] = "x".into();
        let wrong = errors(&schema, &config, &[]);

        assert_eq!(right, [""; 0]);
        assert!(wrong[0].contains("too much work to say where"), "{wrong:?}");
    }

    #[test]
    fn members_that_are_not_there_are_looked_for_too() {
        let names = (0..1_000).map(|number| (format!("p{number}"), json!(true)));
        let schema = json!({"items": {"properties": Value::Object(names.collect())}});
        let schema = json!({"properties": {"a": schema}});

        let few = errors(&schema, &json!({"a": vec![json!({}); 100]}), &[]);
        let many = errors(&schema, &json!({"a": vec![json!({}); 20_000]}), &[]);

        assert_eq!(few, [""; 0]);
        assert!(many[0].contains("takes more than 2000000 steps"), "{many:?}");
    }
}
