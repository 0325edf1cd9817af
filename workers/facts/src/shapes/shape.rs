//! One part of a JSON Schema: the schema of a part of the facts.

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use jsonschema::{PatternOptions, Validator};
use serde_json::Value;

use crate::format::FORMATS;
use crate::pointer::Pointer;

/// The most backtracking steps of a regular expression in one text.
const BACKTRACKS: usize = 100_000;

/// The longest chain of `$ref`.
pub(super) const LONGEST_CHAIN: usize = 64;

/// One schema within a schema.
#[derive(Debug, Default)]
pub(crate) struct Shape {
    /// The path in the whole schema.
    pub(super) at: Pointer,
    pub(super) validator: OnceLock<Option<Validator>>,
    pub(super) properties: BTreeMap<String, usize>,
    pub(super) patterns: Vec<(Arc<Validator>, usize)>,
    /// The schemas of members that neither `properties` nor a pattern names.
    pub(super) additional: Vec<usize>,
    pub(super) items: Vec<usize>,
    /// The schemas that the same value must fit, or may fit.
    pub(super) others: Vec<usize>,
    /// The schemas of the names in a map.
    pub(super) names: Vec<usize>,
    /// Whether each member of a map can be checked on its own.
    pub(super) is_separable: bool,
    /// Whether the schema only refers to another one.
    pub(super) is_reference: bool,
    /// Whether the value is a secret.
    pub(crate) is_sensitive: bool,
    /// Whether the value must stay as it was first set.
    pub(crate) is_fixed: bool,
    /// The path of the names that the value must be one of.
    pub(crate) references: Option<Pointer>,
}

impl Shape {
    /// Returns the schemas of a member.
    pub(super) fn members(&self, name: &str) -> Vec<usize> {
        let named = self.properties.get(name).copied();
        let patterns = self.patterns.iter().filter(|(pattern, _)| pattern.is_valid(&name.into()));
        let mut all: Vec<_> = named.into_iter().chain(patterns.map(|(_, index)| *index)).collect();
        if all.is_empty() {
            all.extend(&self.additional);
        }
        all
    }

    /// Returns the names of the members that the schema knows.
    pub(crate) fn known_names(&self) -> impl Iterator<Item = &str> {
        self.properties.keys().map(String::as_str)
    }
}

/// Returns the value at a path in a schema.
pub(super) fn part<'a>(schema: &'a Value, at: &Pointer) -> Option<&'a Value> {
    at.segments().try_fold(schema, |schema, segment| match schema {
        Value::Object(map) => map.get(segment),
        Value::Array(items) => items.get(crate::tree::index(segment)?),
        _ => None,
    })
}

/// Returns the options of every validator.
pub(super) fn options<'a>() -> jsonschema::ValidationOptions<'a> {
    let patterns = PatternOptions::fancy_regex().backtrack_limit(BACKTRACKS);
    let options = jsonschema::options().offline().with_pattern_options(patterns);
    let options = options.should_validate_formats(true);
    FORMATS.iter().fold(options, |options, format| options.with_format(format.name, format.is))
}
