//! A JSON Schema taken apart: which schema belongs to which part of the facts.

use std::collections::{BTreeMap, HashMap};
use std::sync::OnceLock;

use jsonschema::{PatternOptions, Validator};
use regex::Regex;
use serde_json::{Map, Value};

use crate::format::{FORMATS, STANDARD};
use crate::pointer::Pointer;
use crate::violation::{Violation, did_you_mean};

/// How often a regular expression may go back in one text.
const BACKTRACKS: usize = 100_000;

/// The keywords that judge each member of a map apart from the others, and the map itself by its names alone.
const SEPARABLE: [&str; 19] = [
    "type",
    "properties",
    "patternProperties",
    "additionalProperties",
    "required",
    "propertyNames",
    "minProperties",
    "maxProperties",
    "title",
    "description",
    "default",
    "examples",
    "$comment",
    "$schema",
    "$defs",
    "$id",
    "sensitive",
    "fixed",
    "references",
];

/// One schema in a schema.
#[derive(Debug, Default)]
pub(crate) struct Shape {
    /// The schema as a document of its own.
    document: Value,
    validator: OnceLock<Option<Validator>>,
    properties: BTreeMap<String, usize>,
    patterns: Vec<(Regex, usize)>,
    additional: Option<usize>,
    items: Option<usize>,
    /// The schemas that the same value has to fit, or may.
    others: Vec<usize>,
    /// Whether the members of a map are judged apart from each other.
    is_separable: bool,
    /// Whether it is a secret.
    pub(crate) is_sensitive: bool,
    /// Whether it stays as it was set at first.
    pub(crate) is_fixed: bool,
    /// Where the names are that its value is one of.
    pub(crate) references: Option<Pointer>,
    /// Where the names are that each name in it is one of.
    pub(crate) name_references: Option<Pointer>,
}

/// The schemas in a schema; the first one is the schema itself.
#[derive(Debug)]
pub(crate) struct Shapes {
    shapes: Vec<Shape>,
    pub(crate) has_fixed: bool,
    pub(crate) has_references: bool,
}

impl Shapes {
    /// Takes a schema apart.
    ///
    /// # Errors
    ///
    /// What is wrong with it, with places in it.
    pub(crate) fn new(schema: &Value) -> Result<Self, Vec<Violation>> {
        let is_whole = has_far_references(schema);
        let mut builder = Builder {
            schema,
            is_whole,
            shapes: Vec::new(),
            known: HashMap::new(),
            violations: Vec::new(),
        };
        builder.shape(&Pointer::root(), schema);
        if builder.violations.is_empty()
            && let Err(violation) = options().build(schema).map_err(|error| refused(&error))
        {
            builder.violations.push(violation);
        }
        let Builder { shapes, violations, .. } = builder;
        if !violations.is_empty() {
            return Err(violations);
        }
        let has_fixed = shapes.iter().any(|shape| shape.is_fixed);
        let is_reference =
            |shape: &Shape| shape.references.is_some() || shape.name_references.is_some();
        let has_references = shapes.iter().any(is_reference);
        Ok(Self { shapes, has_fixed, has_references })
    }

    pub(crate) fn get(&self, index: usize) -> &Shape {
        &self.shapes[index]
    }

    /// Returns the schemas that a value has to fit or may, if it has to fit or may fit this one.
    pub(crate) fn with_others(&self, index: usize) -> Vec<usize> {
        let mut all = vec![index];
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

    /// Returns the schemas of a member of a value with these schemas.
    pub(crate) fn member(&self, of: &[usize], name: &str, is_list: bool) -> Vec<usize> {
        let mut all = Vec::new();
        for index in of {
            let found = match is_list {
                true => self.shapes[*index].items.into_iter().collect(),
                false => self.shapes[*index].members(name),
            };
            for index in found.into_iter().flat_map(|index| self.with_others(index)) {
                if !all.contains(&index) {
                    all.push(index);
                }
            }
        }
        all
    }

    /// Returns the schema that alone judges a member, if whether the map fits apart from that depends on its
    /// names alone.
    pub(crate) fn apart(&self, index: usize, name: &str) -> Option<usize> {
        let shape = &self.shapes[index];
        let members = if shape.is_separable { shape.members(name) } else { return None };
        match members[..] {
            [member] => Some(self.alias(member)),
            _ => None,
        }
    }

    /// Returns the schema that another one refers to, if it does no more than that.
    pub(crate) fn alias(&self, mut index: usize) -> usize {
        for _ in 0..self.shapes.len() {
            let shape = &self.shapes[index];
            let is_reference = shape.document.as_object().is_some_and(|map| {
                map.contains_key("$ref") && map.keys().all(|key| matches!(&**key, "$ref" | "$defs"))
            });
            match shape.others[..] {
                [other] if is_reference => index = other,
                _ => break,
            }
        }
        index
    }
}

impl Shape {
    fn members(&self, name: &str) -> Vec<usize> {
        let named = self.properties.get(name).copied();
        let patterns = self.patterns.iter().filter(|(pattern, _)| pattern.is_match(name));
        let mut all: Vec<_> = named.into_iter().chain(patterns.map(|(_, index)| *index)).collect();
        if all.is_empty() {
            all.extend(self.additional);
        }
        all
    }

    /// Returns the names of the members that the schema has.
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.properties.keys().map(String::as_str)
    }

    /// Returns what judges values; none if the schema takes all.
    pub(crate) fn validator(&self) -> Option<&Validator> {
        self.validator.get_or_init(|| options().build(&self.document).ok()).as_ref()
    }
}

struct Builder<'a> {
    schema: &'a Value,
    /// Whether a part of the schema means something in the whole only.
    is_whole: bool,
    shapes: Vec<Shape>,
    /// The schemas that were met, by their path in the whole.
    known: HashMap<Pointer, usize>,
    violations: Vec<Violation>,
}

impl<'a> Builder<'a> {
    fn shape(&mut self, at: &Pointer, schema: &'a Value) -> usize {
        if let Some(index) = self.known.get(at) {
            return *index;
        }
        let index = self.shapes.len();
        self.known.insert(at.clone(), index);
        self.shapes.push(Shape { document: schema.clone(), ..Shape::default() });
        let Some(map) = schema.as_object() else { return index };
        let mut shape = Shape { document: self.alone(at, map), ..Shape::default() };
        shape.is_separable =
            !self.is_whole && map.keys().all(|key| SEPARABLE.contains(&key.as_str()));
        shape.is_sensitive = self.flag(map, "sensitive", at);
        shape.is_fixed = self.flag(map, "fixed", at);
        shape.references = self.target(map, at);
        self.check_format(map, at);
        if let Some(Value::Object(names)) = map.get("propertyNames") {
            shape.name_references = self.target(names, &at.join("propertyNames"));
            self.check_format(names, &at.join("propertyNames"));
        }
        for (name, member) in members(map, "properties") {
            let at = at.join("properties").join(name);
            shape.properties.insert(name.clone(), self.shape(&at, member));
        }
        for (pattern, member) in members(map, "patternProperties") {
            let at = at.join("patternProperties").join(pattern);
            let member = self.shape(&at, member);
            match Regex::new(pattern) {
                Ok(pattern) => shape.patterns.push((pattern, member)),
                Err(error) => self.violations.push(Violation::of_document(&at, error.to_string())),
            }
        }
        let mut one = |key: &str| map.get(key).map(|schema| self.shape(&at.join(key), schema));
        shape.additional = one("additionalProperties");
        shape.items = one("items");
        shape.others = ["if", "then", "else", "not"].into_iter().filter_map(&mut one).collect();
        for key in ["allOf", "anyOf", "oneOf"] {
            for (position, other) in
                map.get(key).and_then(Value::as_array).into_iter().flatten().enumerate()
            {
                shape.others.push(self.shape(&at.join(key).join(&position.to_string()), other));
            }
        }
        shape.others.extend(self.referred(map, at));
        self.shapes[index] = shape;
        index
    }

    /// Returns a part of the schema as a document of its own, with the definitions of the whole.
    fn alone(&self, at: &Pointer, map: &Map<String, Value>) -> Value {
        let mut map = map.clone();
        if !at.is_root() {
            for key in ["$schema", "$defs"] {
                if let Some(value) = self.schema.get(key) {
                    map.insert(key.to_owned(), value.clone());
                }
            }
        }
        Value::Object(map)
    }

    fn flag(&mut self, map: &Map<String, Value>, key: &str, at: &Pointer) -> bool {
        match map.get(key) {
            None => false,
            Some(Value::Bool(flag)) => *flag,
            Some(_) => {
                let violation =
                    Violation::of_document(&at.join(key), format!("{key:?} is true or false"));
                self.violations.push(violation);
                false
            }
        }
    }

    /// Reads where the names are that something refers to.
    fn target(&mut self, map: &Map<String, Value>, at: &Pointer) -> Option<Pointer> {
        let target = map.get("references")?;
        let pointer = target.as_str().and_then(|text| text.parse::<Pointer>().ok());
        let pointer = pointer.filter(|pointer| pointer.segments().next_back() == Some("*"));
        if pointer.is_none() {
            let message = "\"references\" is a path with \"*\" for any name, which ends in \"*\", such as \
                           \"/racks/*/hosts/*\"";
            let violation = Violation::of_document(&at.join("references"), message).value(target);
            self.violations.push(violation);
        }
        pointer
    }

    fn check_format(&mut self, map: &Map<String, Value>, at: &Pointer) {
        let Some(name) = map.get("format").and_then(Value::as_str) else { return };
        let names = || FORMATS.iter().map(|format| format.name).chain(STANDARD);
        if !names().any(|known| known == name) {
            let message = format!("there is no format {name:?}");
            let help = did_you_mean(name, names());
            let help = help
                .or_else(|| Some(format!("there are {}", names().collect::<Vec<_>>().join(", "))));
            self.violations.push(Violation::of_document(&at.join("format"), message).help(help));
        }
    }

    /// Returns the schema that a `$ref` leads to.
    fn referred(&mut self, map: &Map<String, Value>, at: &Pointer) -> Option<usize> {
        let target = map.get("$ref")?.as_str()?;
        let pointer = target.strip_prefix('#').and_then(|pointer| pointer.parse::<Pointer>().ok());
        let found = pointer.and_then(|pointer| {
            let found = pointer.segments().try_fold(self.schema, |schema, segment| match schema {
                Value::Object(map) => map.get(segment),
                Value::Array(items) => items.get(crate::tree::index(segment)?),
                _ => None,
            });
            found.map(|schema| (pointer, schema))
        });
        match found {
            Some((pointer, schema)) => Some(self.shape(&pointer, schema)),
            None => {
                let message =
                    format!("{target:?} leads to nothing in this schema, and no other is read");
                self.violations.push(Violation::of_document(&at.join("$ref"), message));
                None
            }
        }
    }
}

fn members<'a>(
    map: &'a Map<String, Value>,
    key: &str,
) -> impl Iterator<Item = (&'a String, &'a Value)> + use<'a> {
    map.get(key).and_then(Value::as_object).into_iter().flatten()
}

/// Returns whether a schema refers to other parts of itself than its definitions, so that no part of it means
/// the same alone.
fn has_far_references(schema: &Value) -> bool {
    match schema {
        Value::Object(map) => {
            let far = |key: &str, value: &Value| match key {
                "$ref" => !value.as_str().is_some_and(|target| target.starts_with("#/$defs/")),
                "$anchor" | "$dynamicRef" | "$dynamicAnchor" => true,
                _ => has_far_references(value),
            };
            map.iter().any(|(key, value)| far(key, value))
        }
        Value::Array(items) => items.iter().any(has_far_references),
        _ => false,
    }
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
