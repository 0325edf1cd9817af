//! Secrets in the facts.
//!
//! A schema applies to the facts at its path, and to the same facts in layers. A schema for `/web` applies at `/web`,
//! at `/layers/role/R/web` and at `/layers/host/H/facts/web`.

use serde_json::Value;

use crate::layers::LAYERS;
use crate::pointer::Pointer;
use crate::shapes::Shapes;

/// The text that is shown instead of a secret.
pub(crate) const HIDDEN: &str = "(sensitive)";

/// The paths that hold facts: the root, each role, and each host. `None` is any name.
const PLACES: [&[Option<&str>]; 3] =
    [&[], &[Some(LAYERS), Some("role"), None], &[Some(LAYERS), Some("host"), None, Some("facts")]];

/// The schemas with secrets, each with the path that it applies to.
type Known<'a> = &'a [(&'a Pointer, &'a Shapes)];

/// The function that is called with each secret.
type Visit<'a> = &'a mut dyn FnMut(Pointer, &mut Value);

/// Returns the paths that a schema for `at` applies to. `None` is any name.
fn ways(at: &Pointer) -> impl Iterator<Item = Vec<Option<&str>>> {
    PLACES.iter().map(|place| place.iter().copied().chain(at.segments().map(Some)).collect())
}

/// Returns whether the value at a path is a secret, or is in one.
pub(crate) fn is_sensitive(schemas: Known<'_>, path: &Pointer) -> bool {
    let parts = path.parts();
    schemas.iter().any(|(at, all)| {
        ways(at).any(|way| {
            let is_there = way.len() <= parts.len()
                && way.iter().zip(parts).all(|(one, other)| one.is_none_or(|one| one == other));
            let ends = way.len()..=parts.len();
            is_there && ends.into_iter().any(|end| is_secret(all, &all.at(&parts[way.len()..end])))
        })
    })
}

/// Calls `visit` with each secret in the value at a path, or with the whole value if it is in a secret.
pub(crate) fn visit(schemas: Known<'_>, path: &Pointer, value: &mut Value, visit: Visit<'_>) {
    if is_sensitive(schemas, path) {
        return visit(path.clone(), value);
    }
    for (at, all) in schemas {
        for way in ways(at) {
            let parts = path.parts();
            let is_alike =
                way.iter().zip(parts).all(|(one, other)| one.is_none_or(|one| one == other));
            if !is_alike {
                continue;
            }
            match way.get(parts.len()..) {
                Some(rest) => descend(all, (path, value), rest, visit),
                None => {
                    let shapes = all.at(&parts[way.len()..]);
                    walk(all, (path, value), &shapes, visit);
                }
            }
        }
    }
}

/// Follows the rest of the way to the facts of a schema.
fn descend(
    all: &Shapes,
    (path, value): (&Pointer, &mut Value),
    way: &[Option<&str>],
    visit: Visit<'_>,
) {
    let Some((first, rest)) = way.split_first() else {
        return walk(all, (path, value), &all.root(), visit);
    };
    let Value::Object(map) = value else { return };
    match first {
        Some(name) => {
            if let Some(value) = map.get_mut(*name) {
                descend(all, (&path.join(name), value), rest, visit);
            }
        }
        None => {
            for (name, value) in map {
                descend(all, (&path.join(name), value), rest, visit);
            }
        }
    }
}

fn walk(all: &Shapes, (path, value): (&Pointer, &mut Value), shapes: &[usize], visit: Visit<'_>) {
    if shapes.is_empty() {
        return;
    }
    if is_secret(all, shapes) {
        return visit(path.clone(), value);
    }
    match value {
        Value::Object(map) => {
            for (name, value) in map {
                let shapes = all.member(shapes, name);
                walk(all, (&path.join(name), value), &shapes, visit);
            }
        }
        Value::Array(items) => {
            let shapes = all.item(shapes);
            for (index, item) in items.iter_mut().enumerate() {
                walk(all, (&path.join(&index.to_string()), item), &shapes, visit);
            }
        }
        _ => {}
    }
}

fn is_secret(all: &Shapes, shapes: &[usize]) -> bool {
    shapes.iter().any(|it| all.get(*it).is_sensitive)
}

/// Calls `visit` with each text and each number in a secret.
pub(crate) fn texts(value: &Value, visit: &mut impl FnMut(&str)) {
    match value {
        Value::String(text) => visit(text),
        Value::Number(number) => visit(&number.to_string()),
        Value::Array(items) => items.iter().for_each(|item| texts(item, visit)),
        Value::Object(map) => map.values().for_each(|value| texts(value, visit)),
        Value::Null | Value::Bool(_) => {}
    }
}
