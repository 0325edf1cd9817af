//! A JSON Schema split into parts: each part is the schema of a part of the facts.

mod builder;

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use jsonschema::{PatternOptions, Validator};
use serde_json::Value;

use self::builder::split;
use crate::format::FORMATS;
use crate::pointer::Pointer;
use crate::violation::Violation;

/// The most backtracking steps of a regular expression in one text.
const BACKTRACKS: usize = 100_000;

/// The longest chain of `$ref`.
const LONGEST_CHAIN: usize = 64;

/// One schema within a schema.
#[derive(Debug, Default)]
pub(crate) struct Shape {
    /// The path in the whole schema.
    at: Pointer,
    validator: OnceLock<Option<Validator>>,
    properties: BTreeMap<String, usize>,
    patterns: Vec<(Arc<Validator>, usize)>,
    /// The schemas of members that neither `properties` nor a pattern names.
    additional: Vec<usize>,
    items: Vec<usize>,
    /// The schemas that the same value must fit, or may fit.
    others: Vec<usize>,
    /// The schemas of the names in a map.
    names: Vec<usize>,
    /// Whether each member of a map can be checked on its own.
    is_separable: bool,
    /// Whether the schema only refers to another one.
    is_reference: bool,
    /// Whether the value is a secret.
    pub(crate) is_sensitive: bool,
    /// Whether the value must stay as it was first set.
    pub(crate) is_fixed: bool,
    /// The path of the names that the value must be one of.
    pub(crate) references: Option<Pointer>,
}

/// The schemas in a schema; the first one is the schema itself.
#[derive(Debug)]
pub(crate) struct Shapes {
    schema: Arc<Value>,
    shapes: Vec<Shape>,
    pub(crate) has_fixed: bool,
    pub(crate) has_references: bool,
    pub(crate) has_sensitive: bool,
}

impl Shapes {
    /// Splits a schema into its parts.
    ///
    /// # Errors
    ///
    /// All violations, with their places in the schema.
    pub(crate) fn new(schema: &Arc<Value>) -> Result<Self, Vec<Violation>> {
        let (shapes, mut violations) = split(schema);
        if violations.is_empty()
            && let Err(violation) = options().build(schema).map_err(|error| refused(&error))
        {
            violations.push(violation);
        }
        if !violations.is_empty() {
            return Err(violations);
        }
        let has = |is: fn(&Shape) -> bool| shapes.iter().any(is);
        Ok(Self {
            has_fixed: has(|shape| shape.is_fixed),
            has_references: has(|shape| shape.references.is_some()),
            has_sensitive: has(|shape| shape.is_sensitive),
            schema: Arc::clone(schema),
            shapes,
        })
    }

    pub(crate) fn get(&self, index: usize) -> &Shape {
        &self.shapes[index]
    }

    /// Returns the schemas that the facts as a whole must fit, or may fit.
    pub(crate) fn root(&self) -> Vec<usize> {
        self.with_others(vec![0])
    }

    /// Adds the schemas that apply to the same value as these, directly or through others.
    fn with_others(&self, mut all: Vec<usize>) -> Vec<usize> {
        let mut next = 0;
        while let Some(index) = all.get(next) {
            for other in &self.shapes[*index].others {
                if !all.contains(other) {
                    all.push(*other);
                }
            }
            next += 1;
        }
        all
    }

    /// Returns the schemas of a member of a map with these schemas.
    pub(crate) fn member(&self, of: &[usize], name: &str) -> Vec<usize> {
        self.inner(of.iter().flat_map(|index| self.shapes[*index].members(name)))
    }

    /// Returns the schemas of an item of a list with these schemas.
    pub(crate) fn item(&self, of: &[usize]) -> Vec<usize> {
        self.inner(of.iter().flat_map(|index| self.shapes[*index].items.iter().copied()))
    }

    /// Returns the schemas of the names in a map with these schemas.
    pub(crate) fn names(&self, of: &[usize]) -> Vec<usize> {
        self.inner(of.iter().flat_map(|index| self.shapes[*index].names.iter().copied()))
    }

    fn inner(&self, found: impl Iterator<Item = usize>) -> Vec<usize> {
        let mut all: Vec<_> = found.collect();
        all.sort_unstable();
        all.dedup();
        self.with_others(all)
    }

    /// Returns the schemas at the end of a way. A number in it may be a name or the position of an item, so the
    /// schemas of both are returned.
    pub(crate) fn at(&self, way: &[smol_str::SmolStr]) -> Vec<usize> {
        way.iter().fold(self.root(), |shapes, name| {
            let mut all = self.member(&shapes, name);
            if crate::tree::index(name).is_some() {
                all.extend(self.item(&shapes));
            }
            all
        })
    }

    /// Returns the schema of a member that can be checked without the rest of the map; none if it cannot. The rest of
    /// the map then depends only on its names.
    pub(crate) fn apart(&self, index: usize, name: &str) -> Option<usize> {
        let shape = &self.shapes[index];
        if !shape.is_separable {
            return None;
        }
        match shape.members(name)[..] {
            [member] => Some(self.alias(member)),
            _ => None,
        }
    }

    /// Returns the schema itself, or the one at the end of its chain of references if it only refers to another.
    pub(crate) fn alias(&self, mut index: usize) -> usize {
        for _ in 0..LONGEST_CHAIN {
            let shape = &self.shapes[index];
            match shape.others[..] {
                [other] if shape.is_reference => index = other,
                _ => break,
            }
        }
        index
    }

    /// Returns a validator for one part of the schema; none if the part is valid only within the whole.
    pub(crate) fn validator(&self, index: usize) -> Option<&Validator> {
        let shape = &self.shapes[index];
        let build = || {
            let part = part(&self.schema, &shape.at)?;
            let mut part = part.clone();
            if let (false, Some(map)) = (shape.at.is_root(), part.as_object_mut()) {
                for key in ["$schema", "$defs"] {
                    if let Some(value) = self.schema.get(key) {
                        map.insert(key.to_owned(), value.clone());
                    }
                }
            }
            options().build(&part).ok()
        };
        shape.validator.get_or_init(build).as_ref()
    }
}

impl Shape {
    fn members(&self, name: &str) -> Vec<usize> {
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
fn part<'a>(schema: &'a Value, at: &Pointer) -> Option<&'a Value> {
    at.segments().try_fold(schema, |schema, segment| match schema {
        Value::Object(map) => map.get(segment),
        Value::Array(items) => items.get(crate::tree::index(segment)?),
        _ => None,
    })
}

fn options<'a>() -> jsonschema::ValidationOptions<'a> {
    let patterns = PatternOptions::fancy_regex().backtrack_limit(BACKTRACKS);
    let options = jsonschema::options().offline().with_pattern_options(patterns);
    let options = options.should_validate_formats(true);
    FORMATS.iter().fold(options, |options, format| options.with_format(format.name, format.is))
}

fn refused(error: &jsonschema::ValidationError<'_>) -> Violation {
    let at = error.instance_path().to_string().parse().unwrap_or_default();
    Violation::of_document(&at, error.masked_with("this").to_string())
}
