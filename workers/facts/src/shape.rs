//! A JSON Schema split into parts: each part is the schema of a part of the facts.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::{Arc, OnceLock};

use jsonschema::{PatternOptions, Validator};
use serde_json::{Map, Value, json};

use crate::format::{FORMATS, STANDARD};
use crate::pointer::Pointer;
use crate::violation::{Violation, did_you_mean};

/// The most backtracking steps of a regular expression in one text.
const BACKTRACKS: usize = 100_000;

/// The most schemas in one schema.
const MOST_SHAPES: usize = 10_000;

/// The longest chain of `$ref`.
const LONGEST_CHAIN: usize = 64;

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
        let mut builder = Builder::new(schema);
        builder.run();
        let mut violations = builder.violations;
        if violations.is_empty()
            && let Err(violation) = options().build(schema).map_err(|error| refused(&error))
        {
            violations.push(violation);
        }
        if !violations.is_empty() {
            return Err(violations);
        }
        let shapes = builder.shapes;
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
