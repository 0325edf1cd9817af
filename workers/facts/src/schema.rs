//! The schemas that facts have to fit.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use jsonschema::ValidationError;
use jsonschema::error::ValidationErrorKind;
use serde_json::Value;

use crate::difference::Difference;
use crate::format;
use crate::pointer::Pointer;
use crate::shape::Shapes;
use crate::tree::{Node, Tree};
use crate::violation::{MOST, Violation, did_you_mean};

/// The largest schema, in bytes of JSON.
const LARGEST: usize = 1024 * 1024;

/// What is shown in the place of a secret.
pub(crate) const HIDDEN: &str = "(sensitive)";

/// How many changed places are judged one by one; of more, all facts are judged.
const FEW: usize = 64;

/// A JSON Schema (2020-12, unless `$schema` says another draft) for the facts at one path.
///
/// Four keywords are understood beside those of JSON Schema: `sensitive: true` hides a value wherever facts are
/// shown; `fixed: true` keeps a value as it was set first, for as long as the map that it is in is there;
/// `references: PATH` says that a value, or in `propertyNames` each name, is one of the names at PATH, in which
/// `*` stands for any name; and the formats `index`, `fqdn`, `mac` and `wwn`.
#[derive(Debug, Clone)]
pub struct Schema {
    /// Who has registered it.
    pub owner: String,
    value: Arc<Value>,
    shapes: Arc<Shapes>,
}

impl Schema {
    /// Reads a schema.
    ///
    /// # Errors
    ///
    /// What is wrong with it, with places in it.
    pub fn read(owner: &str, value: Value) -> Result<Self, crate::Invalid> {
        let size = value.to_string().len();
        if size > LARGEST {
            let message = format!("the schema has {size} bytes, and at most {LARGEST} are read");
            return Err(Violation::of_document(&Pointer::root(), message).into());
        }
        let shapes = Shapes::new(&value)?;
        Ok(Self { owner: owner.to_owned(), value: Arc::new(value), shapes: Arc::new(shapes) })
    }

    /// Returns the schema as it was registered.
    pub fn value(&self) -> &Value {
        &self.value
    }
}

impl PartialEq for Schema {
    fn eq(&self, other: &Self) -> bool {
        self.owner == other.owner && self.value == other.value
    }
}

/// The schemas by the paths of the facts that they are for.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Schemas(Arc<BTreeMap<Pointer, Schema>>);

impl Schemas {
    /// Returns the schemas with their paths.
    pub fn iter(&self) -> impl Iterator<Item = (&Pointer, &Schema)> {
        self.0.iter()
    }

    /// Returns these with another one at a path, or without the one there.
    pub(crate) fn with(&self, path: &Pointer, schema: Option<Schema>) -> Self {
        let mut schemas = (*self.0).clone();
        match schema {
            Some(schema) => schemas.insert(path.clone(), schema),
            None => schemas.remove(path),
        };
        Self(Arc::new(schemas))
    }

    /// Returns what is wrong with facts after some differences. What was right before and is not touched is not
    /// judged again.
    pub(crate) fn check(&self, after: &Tree, differences: &[Difference]) -> Vec<Violation> {
        let mut violations = Vec::new();
        let mut names = Names::new(after);
        for (path, schema) in &*self.0 {
            let changed = differences.iter().filter(|it| it.path.touches(path));
            let changed: Vec<_> = changed.collect();
            let targets = targets((path, schema), after, &changed);
            for (at, shape) in &targets {
                judge((path, schema), (at, *shape), after, &mut violations);
            }
            if schema.shapes.has_references {
                // What was referred to may be gone.
                let all = vec![(path.clone(), 0)];
                let has_gone = differences
                    .iter()
                    .any(|it| it.before.as_ref().is_some_and(Tree::is_map) || it.after.is_none());
                for (at, shape) in if has_gone { &all } else { &targets } {
                    let Some(tree) = after.at(at) else { continue };
                    let shapes = schema.shapes.with_others(*shape);
                    let mut references =
                        References { schema, names: &mut names, violations: &mut violations };
                    references.check(at, &tree.0, &shapes);
                }
            }
            if violations.len() > MOST {
                break;
            }
        }
        violations.extend(self.check_fixed(differences));
        violations
    }

    /// Returns which facts have changed that stay as they were set first.
    pub(crate) fn check_fixed(&self, differences: &[Difference]) -> Vec<Violation> {
        let mut violations = Vec::new();
        let schemas = self.0.iter().filter(|(_, schema)| schema.shapes.has_fixed);
        for (path, schema) in schemas {
            for difference in differences {
                check_fixed((path, schema), difference, &mut violations);
            }
        }
        violations
    }

    /// Returns whether what is at a path is a secret.
    pub fn is_sensitive(&self, path: &Pointer) -> bool {
        self.0.iter().any(|(at, schema)| {
            let Some(way) = path.strip_prefix(at) else { return false };
            let mut shapes = schema.shapes.with_others(0);
            let is_secret =
                |shapes: &[usize]| shapes.iter().any(|it| schema.shapes.get(*it).is_sensitive);
            is_secret(&shapes)
                || way.segments().any(|name| {
                    // A list has no names, and a map no items.
                    let (in_map, in_list) = (
                        schema.shapes.member(&shapes, name, false),
                        schema.shapes.member(&shapes, name, true),
                    );
                    shapes = [in_map, in_list].concat();
                    is_secret(&shapes)
                })
        })
    }

    /// Returns what is at a path without secrets.
    pub fn redacted(&self, path: &Pointer, tree: &Tree) -> Value {
        if self.0.is_empty() {
            return tree.to_value();
        }
        if self.is_sensitive(path) {
            return HIDDEN.into();
        }
        let mut value = tree.to_value();
        for (at, schema) in &*self.0 {
            if let Some(way) = path.strip_prefix(at) {
                let mut shapes = schema.shapes.with_others(0);
                for name in way.segments() {
                    shapes = schema.shapes.member(&shapes, name, false);
                }
                redact(&mut value, schema, &shapes);
            } else if let Some(way) = at.strip_prefix(path) {
                let inner = way.segments().try_fold(&mut value, |value, name| value.get_mut(name));
                if let Some(inner) = inner {
                    redact(inner, schema, &schema.shapes.with_others(0));
                }
            }
        }
        value
    }

    /// Returns where secrets are in the facts.
    pub fn secret_paths(&self, tree: &Tree) -> Vec<Pointer> {
        let mut paths = Vec::new();
        for (at, schema) in &*self.0 {
            if let Some(tree) = tree.at(at) {
                secret_paths(
                    (at, &tree.to_value()),
                    schema,
                    &schema.shapes.with_others(0),
                    &mut paths,
                );
            }
        }
        paths
    }

    /// Calls `visit` with each secret text in the facts.
    pub fn secrets(&self, tree: &Tree, visit: &mut impl FnMut(&str)) {
        for path in self.secret_paths(tree) {
            if let Some(secret) = tree.at(&path) {
                texts(&secret.to_value(), visit);
            }
        }
    }
}

/// Notes what was to stay as it was.
fn check_fixed(
    (at, schema): (&Pointer, &Schema),
    difference: &Difference,
    violations: &mut Vec<Violation>,
) {
    let Difference { path, before, after } = difference;
    let Some(before) = before else { return };
    let mut shapes = schema.shapes.with_others(0);
    let Some(way) = path.strip_prefix(at) else {
        // The schema is for something in what has changed.
        let Some(way) = at.strip_prefix(path) else { return };
        let (before, after) = (before.at(&way), after.as_ref().and_then(|after| after.at(&way)));
        if let Some(before) = before {
            fixed((at, schema, &shapes), &before.0, after.as_ref().map(|it| &it.0), violations);
        }
        return;
    };
    for name in way.segments() {
        if shapes.iter().any(|it| schema.shapes.get(*it).is_fixed) {
            break;
        }
        shapes = schema.shapes.member(&shapes, name, false);
    }
    fixed((path, schema, &shapes), &before.0, after.as_ref().map(|it| &it.0), violations);
}

/// Notes the values in a map that were to stay and do not.
fn fixed(
    (path, schema, shapes): (&Pointer, &Schema, &[usize]),
    before: &Node,
    after: Option<&Node>,
    violations: &mut Vec<Violation>,
) {
    if shapes.iter().any(|it| schema.shapes.get(*it).is_fixed) && after != Some(before) {
        let message = "it stays as it was set first";
        violations.push(Violation::of_fact(path, message));
        return;
    }
    // Without the map there is nothing to stay.
    let (Node::Map(before), Some(Node::Map(after))) = (before, after) else { return };
    for (name, node) in &**before {
        let shapes = schema.shapes.member(shapes, name, false);
        fixed((&path.join(name), schema, &shapes), node, after.get(name), violations);
    }
}

/// Returns the smallest parts that have to be judged again.
fn targets(
    (path, schema): (&Pointer, &Schema),
    after: &Tree,
    changed: &[&Difference],
) -> Vec<(Pointer, usize)> {
    let all = vec![(path.clone(), 0)];
    if changed.len() > FEW {
        return all;
    }
    let mut targets: Vec<(Pointer, usize)> = Vec::new();
    for Difference { path: changed, before, after: now } in changed {
        // A map of which a value is another one has the same names as before.
        let above = match (before, now) {
            (Some(_), Some(_)) => Some(changed.clone()),
            _ => changed.split_last().map(|(above, _)| above),
        };
        let way = above.and_then(|above| above.strip_prefix(path));
        let Some(way) = way else { return all };
        let (mut at, mut shape) = (path.clone(), schema.shapes.alias(0));
        for name in way.segments() {
            let next = at.join(name);
            match schema.shapes.apart(shape, name) {
                Some(apart) if after.at(&next).is_some() => (at, shape) = (next, apart),
                _ => break,
            }
        }
        if !targets.iter().any(|(other, _)| at.is_within(other)) {
            targets.retain(|(other, _)| !other.is_within(&at));
            targets.push((at, shape));
        }
    }
    targets
}

/// Judges a part of the facts by its part of a schema.
fn judge(
    (path, schema): (&Pointer, &Schema),
    (at, shape): (&Pointer, usize),
    after: &Tree,
    violations: &mut Vec<Violation>,
) {
    let Some(tree) = after.at(at) else { return };
    let Some(validator) = schema.shapes.get(shape).validator() else { return };
    let whole = Schemas::default().with(path, Some(schema.clone()));
    for error in validator.iter_errors(&tree.to_value()).take(MOST) {
        let within: Pointer = error.instance_path().to_string().parse().unwrap_or_default();
        let path = within.below(at);
        violations.extend(told(&path, &error, schema, &whole));
    }
}

/// Says an error of a validator; never with a secret.
fn told(
    path: &Pointer,
    error: &ValidationError<'_>,
    schema: &Schema,
    schemas: &Schemas,
) -> Vec<Violation> {
    match error.kind() {
        ValidationErrorKind::AdditionalProperties { unexpected }
        | ValidationErrorKind::UnevaluatedProperties { unexpected } => {
            let known = names_of(schema, schemas, path);
            let known = || known.iter().map(String::as_str);
            let tell = |name: &String| {
                let names = || format!("there are {}", known().collect::<Vec<_>>().join(", "));
                let help = did_you_mean(name, known());
                let help = help.or_else(|| known().next().map(|_| names()));
                Violation::of_fact(&path.join(name), "the schema knows no such fact").help(help)
            };
            unexpected.iter().map(tell).collect()
        }
        ValidationErrorKind::PropertyNames { error } => {
            let name = error.instance().as_str().unwrap_or_default();
            let message = error.masked_with("the name").to_string();
            vec![Violation::of_fact(&path.join(name), message).help(help_of(error.kind()))]
        }
        kind => {
            let violation = Violation::of_fact(path, error.masked_with("the value").to_string());
            let violation = violation.help(help_of(kind));
            let is_secret = schemas.is_sensitive(path);
            let is_scalar = !error.instance().is_object() && !error.instance().is_array();
            let shows = is_scalar && !is_secret;
            let violation = if shows { violation.value(error.instance()) } else { violation };
            vec![Violation { is_secret, ..violation }]
        }
    }
}

fn help_of(kind: &ValidationErrorKind) -> Option<String> {
    match kind {
        ValidationErrorKind::Format { format } => format::find(format).map(|it| it.help.to_owned()),
        _ => None,
    }
}

/// Returns the names that the schema has for the members at a path.
fn names_of(schema: &Schema, schemas: &Schemas, path: &Pointer) -> Vec<String> {
    let way = schemas.0.keys().find_map(|at| path.strip_prefix(at)).unwrap_or_default();
    let mut shapes = schema.shapes.with_others(0);
    for name in way.segments() {
        shapes = schema.shapes.member(&shapes, name, false);
    }
    let names = shapes.iter().flat_map(|it| schema.shapes.get(*it).names());
    names.map(str::to_owned).collect()
}

fn redact(value: &mut Value, schema: &Schema, shapes: &[usize]) {
    if shapes.is_empty() {
        return;
    }
    if shapes.iter().any(|it| schema.shapes.get(*it).is_sensitive) {
        *value = HIDDEN.into();
        return;
    }
    match value {
        Value::Object(map) => map.iter_mut().for_each(|(name, value)| {
            redact(value, schema, &schema.shapes.member(shapes, name, false));
        }),
        Value::Array(items) => {
            let shapes = schema.shapes.member(shapes, "", true);
            items.iter_mut().for_each(|item| redact(item, schema, &shapes));
        }
        _ => {}
    }
}

fn secret_paths(
    (path, value): (&Pointer, &Value),
    schema: &Schema,
    shapes: &[usize],
    paths: &mut Vec<Pointer>,
) {
    if shapes.iter().any(|it| schema.shapes.get(*it).is_sensitive) {
        return paths.push(path.clone());
    }
    match value {
        Value::Object(map) => map.iter().for_each(|(name, value)| {
            let shapes = schema.shapes.member(shapes, name, false);
            secret_paths((&path.join(name), value), schema, &shapes, paths);
        }),
        Value::Array(items) => {
            let shapes = schema.shapes.member(shapes, "", true);
            for (index, item) in items.iter().enumerate() {
                secret_paths((&path.join(&index.to_string()), item), schema, &shapes, paths);
            }
        }
        _ => {}
    }
}

fn texts(value: &Value, visit: &mut impl FnMut(&str)) {
    match value {
        Value::String(text) => visit(text),
        Value::Number(number) => visit(&number.to_string()),
        Value::Array(items) => items.iter().for_each(|item| texts(item, visit)),
        Value::Object(map) => map.values().for_each(|value| texts(value, visit)),
        Value::Null | Value::Bool(_) => {}
    }
}

/// The names that references lead to, each collected once.
struct Names<'a> {
    facts: &'a Tree,
    known: HashMap<Pointer, HashSet<String>>,
}

impl<'a> Names<'a> {
    fn new(facts: &'a Tree) -> Self {
        Self { facts, known: HashMap::new() }
    }

    fn at(&mut self, pattern: &Pointer) -> &HashSet<String> {
        let facts = self.facts;
        self.known.entry(pattern.clone()).or_insert_with(|| {
            let mut names = HashSet::new();
            let segments: Vec<_> = pattern.segments().collect();
            collect(&facts.0, &segments, &mut names);
            names
        })
    }
}

fn collect(node: &Node, pattern: &[&str], names: &mut HashSet<String>) {
    let (Node::Map(members), Some((first, rest))) = (node, pattern.split_first()) else { return };
    match (*first, rest) {
        ("*", []) => names.extend(members.keys().map(ToString::to_string)),
        ("*", rest) => members.values().for_each(|node| collect(node, rest, names)),
        (name, rest) => {
            if let Some(node) = members.get(name) {
                collect(node, rest, names);
            }
        }
    }
}

/// Looks whether what is referred to is there.
struct References<'a, 'b> {
    schema: &'a Schema,
    names: &'a mut Names<'b>,
    violations: &'a mut Vec<Violation>,
}

impl References<'_, '_> {
    fn check(&mut self, path: &Pointer, node: &Node, shapes: &[usize]) {
        if shapes.is_empty() {
            return;
        }
        let all = &self.schema.shapes;
        match node {
            Node::Map(members) => {
                let targets: Vec<_> =
                    shapes.iter().filter_map(|it| all.get(*it).name_references.clone()).collect();
                for (name, node) in &**members {
                    let path = path.join(name);
                    targets.iter().for_each(|target| self.refer(&path, name, target));
                    self.check(&path, node, &all.member(shapes, name, false));
                }
            }
            Node::Leaf(value) => self.check_value(path, value, shapes),
        }
    }

    fn check_value(&mut self, path: &Pointer, value: &Value, shapes: &[usize]) {
        let all = &self.schema.shapes;
        let targets = shapes.iter().filter_map(|it| all.get(*it).references.clone());
        for target in targets.collect::<Vec<_>>() {
            match value {
                Value::String(name) => self.refer(path, name, &target),
                Value::Number(number) => self.refer(path, &number.to_string(), &target),
                _ => {}
            }
        }
        match value {
            Value::Array(items) => {
                let shapes = all.member(shapes, "", true);
                for (index, item) in items.iter().enumerate() {
                    self.check_value(&path.join(&index.to_string()), item, &shapes);
                }
            }
            Value::Object(map) => map.iter().for_each(|(name, value)| {
                self.check_value(&path.join(name), value, &all.member(shapes, name, false));
            }),
            _ => {}
        }
    }

    fn refer(&mut self, path: &Pointer, name: &str, target: &Pointer) {
        let names = self.names.at(target);
        if !names.contains(name) {
            let help = did_you_mean(name, names.iter().map(String::as_str));
            let message = format!("there is no {name:?} at {target}");
            self.violations.push(Violation::of_fact(path, message).help(help));
        }
    }
}
