//! Skeletons of facts, to be filled in.

use serde_json::{Map, Value, json};

use crate::format;
use crate::schema::Schemas;
use crate::tree::Tree;

/// How deep a skeleton goes into a schema that refers to itself.
const DEEPEST: usize = 16;

/// Returns facts with all that a schema names, as a skeleton to be filled in: each value is the `example` or the
/// `default` that the schema gives, or one of its type.
pub fn example(schema: &Value) -> Value {
    of(schema, schema, 0)
}

/// Returns facts with all that schemas name, each below its path.
pub fn skeleton(schemas: &Schemas) -> Tree {
    let mut facts = Tree::default();
    for (path, schema) in schemas.iter() {
        if let Ok(Tree(node)) = Tree::from_value(example(schema.value())) {
            facts.put(path, node);
        }
    }
    facts
}

fn of(root: &Value, schema: &Value, depth: usize) -> Value {
    let Some(map) = schema.as_object().filter(|_| depth < DEEPEST) else { return Value::Null };
    if let Some(given) = given(map) {
        return given;
    }
    if let Some(target) = map.get("$ref").and_then(Value::as_str) {
        let target = target.strip_prefix('#').and_then(|pointer| root.pointer(pointer));
        return target.map_or(Value::Null, |target| of(root, target, depth + 1));
    }
    for key in ["allOf", "oneOf", "anyOf"] {
        if let Some(first) = map.get(key).and_then(Value::as_array).and_then(|all| all.first()) {
            return of(root, first, depth + 1);
        }
    }
    let kind = match map.get("type") {
        Some(Value::Array(kinds)) => kinds.first(),
        kind => kind,
    };
    match kind.and_then(Value::as_str) {
        Some("object") => members(root, map, depth),
        None if map.contains_key("properties") => members(root, map, depth),
        Some("array") => {
            map.get("items").map_or(json!([]), |items| json!([of(root, items, depth + 1)]))
        }
        Some("integer") => map.get("minimum").cloned().unwrap_or(json!(0)),
        Some("number") => map.get("minimum").cloned().unwrap_or(json!(0.0)),
        Some("boolean") => json!(false),
        Some("string") => text(map).into(),
        _ => Value::Null,
    }
}

/// Returns a value that the schema gives itself.
fn given(map: &Map<String, Value>) -> Option<Value> {
    let first = |key: &str| map.get(key)?.as_array()?.first();
    let value = first("examples").or(map.get("default")).or(map.get("const")).or(first("enum"));
    value.cloned()
}

fn members(root: &Value, map: &Map<String, Value>, depth: usize) -> Value {
    let mut members = Map::new();
    for (name, schema) in map.get("properties").and_then(Value::as_object).into_iter().flatten() {
        members.insert(name.clone(), of(root, schema, depth + 1));
    }
    if let Some(schema) = map.get("additionalProperties").filter(|schema| schema.is_object()) {
        let names = map.get("propertyNames").and_then(Value::as_object);
        let name = names.map_or_else(|| "NAME".to_owned(), text);
        members.insert(name, of(root, schema, depth + 1));
    }
    Value::Object(members)
}

fn text(map: &Map<String, Value>) -> String {
    if let Some(Value::String(text)) = given(map) {
        return text;
    }
    let format = map.get("format").and_then(Value::as_str).and_then(format::find);
    format.map_or_else(String::new, |format| format.example.to_owned())
}
