//! Splits a JSON Schema into its parts.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use serde_json::{Map, Value, json};

use crate::format::{FORMATS, STANDARD};
use crate::pointer::Pointer;
use crate::shapes::shape::{LONGEST_CHAIN, Shape, options, part};
use crate::violation::{Violation, did_you_mean};

/// The most schemas in one schema.
const MOST_SHAPES: usize = 10_000;

/// The keywords that check each member of a map on its own, and the map itself only by its names.
const SEPARABLE: [&str; 17] = [
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
    "sensitive",
    "fixed",
    "references",
];

/// The keywords that JSON Schema does not have.
const OWN: [&str; 3] = ["sensitive", "fixed", "references"];

/// The keywords with one schema for the same value, or for values in it that this module does not distinguish.
const ALIKE: [&str; 4] = ["if", "then", "else", "not"];

/// The keywords with a list of schemas for the same value.
const CHOICES: [&str; 3] = ["allOf", "anyOf", "oneOf"];

/// The keywords with one schema for each item of a list.
const ITEMS: [&str; 4] = ["items", "additionalItems", "unevaluatedItems", "contains"];

/// The keywords whose meaning depends on the way to them. A schema with such a keyword cannot be split into parts.
const DYNAMIC: [&str; 4] = ["$dynamicRef", "$dynamicAnchor", "$recursiveRef", "$recursiveAnchor"];

/// Returns the parts of a schema, the schema itself first, and its violations.
pub(super) fn split(schema: &Value) -> (Vec<Shape>, Vec<Violation>) {
    let mut builder = Builder::new(schema);
    builder.run();
    (builder.shapes, builder.violations)
}

struct Builder<'a> {
    schema: &'a Value,
    /// Whether a part of the schema has its meaning only within the whole.
    is_whole: bool,
    shapes: Vec<Shape>,
    /// The schemas that were found, by their path in the whole.
    known: HashMap<Pointer, usize>,
    /// The schemas that were not read yet.
    waiting: VecDeque<(usize, &'a Value)>,
    violations: Vec<Violation>,
}

impl<'a> Builder<'a> {
    fn new(schema: &'a Value) -> Self {
        let is_whole = means_more_in_the_whole(schema, true);
        let (known, waiting) = (HashMap::new(), VecDeque::new());
        Self { schema, is_whole, shapes: Vec::new(), known, waiting, violations: Vec::new() }
    }

    /// Reads all schemas that it finds. Uses a queue instead of recursion, so a schema may nest to any depth.
    fn run(&mut self) {
        self.shape(Pointer::root(), self.schema);
        while let Some((index, schema)) = self.waiting.pop_front() {
            if self.shapes.len() > MOST_SHAPES {
                let message = format!("it is made of more than {MOST_SHAPES} schemas");
                self.violations.push(Violation::of_document(&Pointer::root(), message));
                return;
            }
            let at = self.shapes[index].at.clone();
            if let Some(map) = schema.as_object() {
                self.shapes[index] = self.read(at, map);
            }
        }
        self.check_chains();
    }

    /// Returns the index of a schema. A new one is queued to be read.
    fn shape(&mut self, at: Pointer, schema: &'a Value) -> usize {
        if let Some(index) = self.known.get(&at) {
            return *index;
        }
        let index = self.shapes.len();
        self.known.insert(at.clone(), index);
        self.shapes.push(Shape { at, ..Shape::default() });
        self.waiting.push_back((index, schema));
        index
    }

    fn read(&mut self, at: Pointer, map: &'a Map<String, Value>) -> Shape {
        for key in DYNAMIC.iter().filter(|key| map.contains_key(**key)) {
            let message =
                format!("{key} is not understood; write out what it refers to, or use $ref");
            self.violations.push(Violation::of_document(&at.join(key), message));
        }
        for key in map.keys().filter(|key| !OWN.contains(&key.as_str())) {
            // JSON Schema ignores unknown keywords, so a misspelt `sensitive` would show a secret.
            let help = did_you_mean(key, OWN);
            if help.is_some() {
                let message = format!("there is no keyword {key:?}");
                self.violations.push(Violation::of_document(&at.join(key), message).help(help));
            }
        }
        self.check_format(map, &at);
        let is_of_root = |key: &str| at.is_root() && matches!(key, "$defs" | "$id");
        let is_alone = |key: &String| SEPARABLE.contains(&key.as_str()) || is_of_root(key);
        let mut shape = Shape {
            is_separable: !self.is_whole && map.keys().all(is_alone),
            is_reference: map.contains_key("$ref")
                && map.keys().all(|key| matches!(&**key, "$ref" | "$defs" | "$schema")),
            is_sensitive: self.flag(map, "sensitive", &at),
            is_fixed: self.flag(map, "fixed", &at),
            references: self.target(map, &at),
            ..Shape::default()
        };
        for (name, member) in members(map, "properties") {
            let at = at.join("properties").join(name);
            shape.properties.insert(name.clone(), self.shape(at, member));
        }
        for (pattern, member) in members(map, "patternProperties") {
            let at = at.join("patternProperties").join(pattern);
            // With the regular expressions of the validator, so that both match the same names.
            match options().build(&json!({"pattern": pattern})) {
                Ok(validator) => {
                    let member = self.shape(at, member);
                    shape.patterns.push((Arc::new(validator), member));
                }
                Err(error) => self.violations.push(Violation::of_document(&at, error.to_string())),
            }
        }
        shape.additional = self.each(map, &at, &["additionalProperties", "unevaluatedProperties"]);
        shape.items = self.each(map, &at, &ITEMS);
        shape.items.extend(self.lists(map, &at, &["prefixItems", "items"]));
        shape.names = self.each(map, &at, &["propertyNames"]);
        shape.others = self.each(map, &at, &ALIKE);
        shape.others.extend(self.lists(map, &at, &CHOICES));
        for (name, other) in members(map, "dependentSchemas") {
            let at = at.join("dependentSchemas").join(name);
            shape.others.push(self.shape(at, other));
        }
        shape.others.extend(self.referred(map, &at));
        Shape { at, ..shape }
    }

    /// Returns the schemas of keywords that have one schema each.
    fn each(&mut self, map: &'a Map<String, Value>, at: &Pointer, keys: &[&str]) -> Vec<usize> {
        let schemas = keys.iter().filter_map(|key| Some((*key, map.get(*key)?)));
        let schemas = schemas.filter(|(_, schema)| !schema.is_array());
        schemas.map(|(key, schema)| self.shape(at.join(key), schema)).collect()
    }

    /// Returns the schemas of keywords that have a list of schemas each.
    fn lists(&mut self, map: &'a Map<String, Value>, at: &Pointer, keys: &[&str]) -> Vec<usize> {
        let mut all = Vec::new();
        for key in keys {
            let schemas = map.get(*key).and_then(Value::as_array).into_iter().flatten();
            for (position, schema) in schemas.enumerate() {
                all.push(self.shape(at.join(key).join(&position.to_string()), schema));
            }
        }
        all
    }

    fn flag(&mut self, map: &Map<String, Value>, key: &str, at: &Pointer) -> bool {
        match map.get(key) {
            None => false,
            Some(Value::Bool(flag)) => *flag,
            Some(_) => {
                let message = format!("{key:?} is true or false");
                self.violations.push(Violation::of_document(&at.join(key), message));
                false
            }
        }
    }

    /// Reads the path of the names in `references`.
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
            let all = || format!("there are {}", names().collect::<Vec<_>>().join(", "));
            let help = Some(help.unwrap_or_else(all));
            self.violations.push(Violation::of_document(&at.join("format"), message).help(help));
        }
    }

    /// Returns the schema that a `$ref` leads to.
    fn referred(&mut self, map: &Map<String, Value>, at: &Pointer) -> Option<usize> {
        let target = map.get("$ref")?.as_str()?;
        let fragment = target.strip_prefix('#').and_then(unescaped);
        let pointer = fragment.and_then(|pointer| pointer.parse::<Pointer>().ok());
        let found = pointer.and_then(|pointer| Some((part(self.schema, &pointer)?, pointer)));
        match found {
            Some((schema, pointer)) => Some(self.shape(pointer, schema)),
            None => {
                let message =
                    format!("{target:?} leads to nothing in this schema, and no other is read");
                self.violations.push(Violation::of_document(&at.join("$ref"), message));
                None
            }
        }
    }

    /// Refuses chains of references that are too long or never end: following them would go too deep.
    fn check_chains(&mut self) {
        for shape in &self.shapes {
            let (mut last, mut length) = (shape, 0);
            while let ([other], true) = (&last.others[..], last.is_reference) {
                length += 1;
                if length > LONGEST_CHAIN {
                    let message =
                        format!("more than {LONGEST_CHAIN} $ref follow each other from here");
                    self.violations.push(Violation::of_document(&shape.at, message));
                    return;
                }
                last = &self.shapes[*other];
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

/// Decodes the percent escapes in the fragment of an address.
fn unescaped(fragment: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(fragment.len());
    let mut rest = fragment.as_bytes();
    while let [first, after @ ..] = rest {
        rest = after;
        if *first == b'%' {
            let digits = std::str::from_utf8(after.get(..2)?).ok()?;
            bytes.push(u8::from_str_radix(digits, 16).ok()?);
            rest = &after[2..];
        } else {
            bytes.push(*first);
        }
    }
    String::from_utf8(bytes).ok()
}

/// Returns whether a part of a schema may mean something else on its own than in the whole. Such a part refers to
/// more than the definitions at the root, or has its own addresses or definitions.
fn means_more_in_the_whole(schema: &Value, is_root: bool) -> bool {
    match schema {
        Value::Object(map) => map.iter().any(|(key, value)| match key.as_str() {
            "$ref" => !value.as_str().is_some_and(|target| target.starts_with("#/$defs/")),
            "$anchor" => true,
            "$id" | "$defs" if !is_root => true,
            _ => means_more_in_the_whole(value, false),
        }),
        Value::Array(items) => items.iter().any(|item| means_more_in_the_whole(item, false)),
        _ => false,
    }
}
