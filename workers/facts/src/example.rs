//! Skeletons of facts, to be filled in.

use std::sync::Arc;

use serde_json::{Map, Value, json};

use crate::format;
use crate::schema::Schemas;
use crate::shapes::matches;
use crate::tree::{Node, Tree};

/// The most levels of a skeleton, for a schema that refers to itself.
const DEEPEST: usize = 16;

/// The most values in a skeleton; further ones are null.
const MOST: usize = 10_000;

/// Returns a skeleton with all facts that a schema names. Each value is the first of the `examples` of the schema,
/// or its `default`, or a value of its type.
pub fn example(schema: &Value) -> Value {
    Skeleton { root: schema, left: MOST }.of(schema, 0)
}

/// Returns a skeleton with all facts that the schemas name, each below the path of its schema. An example that cannot
/// be a fact there, because of its depth or its names, is null.
pub fn skeleton(schemas: &Schemas) -> Tree {
    let mut facts = Tree::default();
    for (path, schema) in schemas.iter() {
        let example = Tree::of_value_at(path, &example(schema.value()));
        let Tree(node) = example.unwrap_or_else(|_| Tree(Node::Leaf(Arc::new(Value::Null))));
        facts.put(path, node);
    }
    facts
}

struct Skeleton<'a> {
    root: &'a Value,
    /// The number of values that may still be added.
    left: usize,
}

impl Skeleton<'_> {
    fn of(&mut self, schema: &Value, depth: usize) -> Value {
        self.left = self.left.saturating_sub(1);
        let is_more = depth < DEEPEST && self.left > 0;
        let Some(map) = schema.as_object().filter(|_| is_more) else { return Value::Null };
        if let Some(given) = given(map) {
            return given;
        }
        if let Some(target) = map.get("$ref").and_then(Value::as_str) {
            let target = target.strip_prefix('#').and_then(|pointer| self.root.pointer(pointer));
            return target.map_or(Value::Null, |target| self.of(target, depth + 1));
        }
        for key in ["allOf", "oneOf", "anyOf"] {
            let first = map.get(key).and_then(Value::as_array).and_then(|all| all.first());
            if let Some(first) = first {
                return self.of(first, depth + 1);
            }
        }
        let kind = match map.get("type") {
            Some(Value::Array(kinds)) => kinds.first(),
            kind => kind,
        };
        match kind.and_then(Value::as_str) {
            Some("object") => self.members(map, depth),
            None if map.contains_key("properties") => self.members(map, depth),
            Some("array") => {
                map.get("items").map_or(json!([]), |items| json!([self.of(items, depth + 1)]))
            }
            Some("integer") => map.get("minimum").cloned().unwrap_or(json!(0)),
            Some("number") => map.get("minimum").cloned().unwrap_or(json!(0.0)),
            Some("boolean") => json!(false),
            Some("string") => text(map).into(),
            _ => Value::Null,
        }
    }

    fn members(&mut self, map: &Map<String, Value>, depth: usize) -> Value {
        let mut members = Map::new();
        for (name, schema) in map.get("properties").and_then(Value::as_object).into_iter().flatten()
        {
            members.insert(name.clone(), self.of(schema, depth + 1));
        }
        let names = map.get("propertyNames").and_then(Value::as_object);
        for (pattern, schema) in
            map.get("patternProperties").and_then(Value::as_object).into_iter().flatten()
        {
            let name = names.and_then(named).unwrap_or_else(|| name_like(pattern));
            if !members.contains_key(&name) {
                members.insert(name, self.of(schema, depth + 1));
            }
        }
        if let Some(schema) = map.get("additionalProperties").filter(|schema| schema.is_object()) {
            let name = names.map_or_else(|| "NAME".to_owned(), name);
            members.insert(name, self.of(schema, depth + 1));
        }
        Value::Object(members)
    }
}

/// Returns the value that the schema itself gives, if it gives one.
fn given(map: &Map<String, Value>) -> Option<Value> {
    let first = |key: &str| map.get(key)?.as_array()?.first();
    let value = first("examples").or(map.get("default")).or(map.get("const")).or(first("enum"));
    value.cloned()
}

/// Names that many patterns match, the plainest first.
const NAMES: [&str; 12] = [
    "NAME",
    "name",
    "Name",
    "a",
    "A",
    "0",
    "1",
    "name1",
    "name-1",
    "h1.example.com",
    "/name",
    "10.0.0.1",
];

/// Returns a name that the schema of names describes.
fn name(names: &Map<String, Value>) -> String {
    named(names).unwrap_or_else(|| match names.get("pattern").and_then(Value::as_str) {
        Some(pattern) => name_like(pattern),
        None => "NAME".to_owned(),
    })
}

/// Returns a name that the schema of names gives; none if it gives none.
fn named(names: &Map<String, Value>) -> Option<String> {
    Some(text(names)).filter(|name| !name.is_empty())
}

/// Returns a name that a pattern matches. If no usual name does, the pattern itself stands for the name.
fn name_like(pattern: &str) -> String {
    let formats = format::FORMATS.iter().map(|format| format.example);
    let mut names = NAMES.into_iter().chain(formats);
    names.find(|name| matches(pattern, name)).unwrap_or(pattern).to_owned()
}

fn text(map: &Map<String, Value>) -> String {
    if let Some(Value::String(text)) = given(map) {
        return text;
    }
    let format = map.get("format").and_then(Value::as_str).and_then(format::find);
    format.map_or_else(String::new, |format| format.example.to_owned())
}
