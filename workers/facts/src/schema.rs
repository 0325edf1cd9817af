//! The schemas of facts.

use std::collections::BTreeMap;
use std::sync::Arc;

use jsonschema::ValidationError;
use jsonschema::error::ValidationErrorKind;
use serde_json::Value;

use crate::difference::Difference;
use crate::format;
use crate::pointer::Pointer;
use crate::references::{Names, References};
use crate::secrecy;
use crate::shapes::Shapes;
use crate::tree::{Node, Tree, is_deeper};
use crate::violation::{Sink, Violation, did_you_mean, there_are};

/// The largest schema: its size in bytes of JSON, and its depth in levels.
const LARGEST: usize = 1024 * 1024;
const DEEPEST: usize = 64;

/// The most changed places that are checked one by one. If there are more, all facts are checked.
const FEW: usize = 64;

/// A JSON Schema (2020-12, unless `$schema` names another draft) for the facts at one path.
///
/// It may use more than JSON Schema has:
///
/// - `sensitive: true` hides a value wherever facts are shown.
/// - `fixed: true` keeps the first value, for as long as the map around it exists.
/// - `references: PATH` requires that a value is one of the names at PATH; in `propertyNames`, that each name is.
///   In PATH, `*` stands for any name.
/// - `format` also knows `index`, `fqdn`, `mac` and `wwn`.
#[derive(Debug, Clone)]
pub struct Schema {
    /// The owner, as given when the schema was registered.
    pub owner: String,
    value: Arc<Value>,
    pub(crate) shapes: Arc<Shapes>,
}

impl Schema {
    /// Reads a schema.
    ///
    /// # Errors
    ///
    /// All violations, with their places in the schema.
    pub fn read(owner: &str, value: Value) -> Result<Self, crate::Invalid> {
        let size = value.to_string().len();
        let refuse = |message: String| Violation::of_document(&Pointer::root(), message);
        if size > LARGEST {
            let message = format!("the schema has {size} bytes, and at most {LARGEST} are read");
            return Err(refuse(message).into());
        }
        if is_deeper(&value, DEEPEST) {
            return Err(refuse(format!("the schema is more than {DEEPEST} levels deep")).into());
        }
        let value = Arc::new(value);
        let shapes = Arc::new(Shapes::new(&value)?);
        Ok(Self { owner: owner.to_owned(), value, shapes })
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

/// The schemas, by the path of the facts that they apply to.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Schemas(Arc<BTreeMap<Pointer, Schema>>);

impl Schemas {
    /// Returns the schemas with their paths.
    pub fn iter(&self) -> impl Iterator<Item = (&Pointer, &Schema)> {
        self.0.iter()
    }

    /// Returns the schemas with this one at a path, or without the one there.
    pub(crate) fn with(&self, path: &Pointer, schema: Option<Schema>) -> Self {
        let mut schemas = (*self.0).clone();
        match schema {
            Some(schema) => schemas.insert(path.clone(), schema),
            None => schemas.remove(path),
        };
        Self(Arc::new(schemas))
    }

    /// Adds the violations of the facts after some differences. Does not check again what the differences leave
    /// untouched.
    pub(crate) fn check(
        &self,
        (after, extent): (&Tree, Extent),
        differences: &[Difference],
        sink: &mut Sink,
    ) {
        let mut names = Names::new(after);
        // The target of a reference may be gone.
        let has_gone =
            |it: &Difference| it.before.as_ref().is_some_and(Tree::is_map) || it.after.is_none();
        let has_gone = differences.iter().any(has_gone);
        for (path, schema) in &*self.0 {
            let changed = differences.iter().filter(|it| it.path.touches(path));
            let changed: Vec<_> = changed.collect();
            let targets = targets((path, schema), after, &changed);
            let judging = Judging { schemas: self, path, schema, after, extent };
            targets.iter().for_each(|(at, shape)| judging.judge((at, *shape), sink));
            if schema.shapes.has_references && extent == Extent::Whole {
                let all = [(path.clone(), 0)];
                for (at, _) in if has_gone { &all[..] } else { &targets[..] } {
                    let Some(tree) = after.at(at) else { continue };
                    let way = at.strip_prefix(path).unwrap_or_default();
                    let shapes = schema.shapes.at(way.parts());
                    let mut references =
                        References { shapes: &schema.shapes, names: &mut names, sink };
                    references.check(at, &tree.0, &shapes);
                }
            }
        }
        self.check_fixed(differences, sink);
    }

    /// Adds a violation for each fixed fact that has changed.
    pub(crate) fn check_fixed(&self, differences: &[Difference], sink: &mut Sink) {
        let schemas = self.0.iter().filter(|(_, schema)| schema.shapes.has_fixed);
        for (path, schema) in schemas {
            for difference in differences {
                check_fixed((path, schema), difference, sink);
            }
        }
    }

    /// Returns whether the value at a path is a secret, or is in one.
    pub fn is_sensitive(&self, path: &Pointer) -> bool {
        secrecy::is_sensitive(&self.sensitive(), path)
    }

    /// Returns the schemas with secrets.
    fn sensitive(&self) -> Vec<(&Pointer, &Shapes)> {
        let schemas = self.0.iter().filter(|(_, schema)| schema.shapes.has_sensitive);
        schemas.map(|(path, schema)| (path, &*schema.shapes)).collect()
    }

    /// Returns whether any fact may be a secret.
    pub fn has_sensitive(&self) -> bool {
        self.0.values().any(|schema| schema.shapes.has_sensitive)
    }

    /// Returns the facts at a path as a value, with `(sensitive)` instead of each secret.
    pub fn redacted(&self, path: &Pointer, tree: &Tree) -> Value {
        let mut value = tree.to_value();
        if self.has_sensitive() {
            secrecy::visit(&self.sensitive(), path, &mut value, &mut |_, secret| {
                *secret = secrecy::HIDDEN.into();
            });
        }
        value
    }

    /// Returns the paths of the secrets in the facts.
    pub fn secret_paths(&self, tree: &Tree) -> Vec<Pointer> {
        let mut paths = Vec::new();
        if self.has_sensitive() {
            secrecy::visit(
                &self.sensitive(),
                &Pointer::root(),
                &mut tree.to_value(),
                &mut |path, _| paths.push(path),
            );
        }
        paths
    }

    /// Calls `visit` with each secret text in the facts.
    pub fn secrets(&self, tree: &Tree, visit: &mut impl FnMut(&str)) {
        if self.has_sensitive() {
            secrecy::visit(
                &self.sensitive(),
                &Pointer::root(),
                &mut tree.to_value(),
                &mut |_, secret| {
                    secrecy::texts(secret, visit);
                },
            );
        }
    }
}

/// Adds a violation for each fixed fact that a difference changes.
fn check_fixed((at, schema): (&Pointer, &Schema), difference: &Difference, sink: &mut Sink) {
    let Difference { path, before, after } = difference;
    let Some(before) = before else { return };
    let fixed = Fixed { schema };
    let Some(way) = path.strip_prefix(at) else {
        // The facts of the schema are below the path of the difference.
        let Some(way) = at.strip_prefix(path) else { return };
        let above = way.split_last().map(|(above, _)| above).unwrap_or_default();
        let is_there = after.as_ref().and_then(|after| after.at(&above)).is_some();
        let (before, after) = (before.at(&way), after.as_ref().and_then(|after| after.at(&way)));
        // If the map is gone, its fixed facts may go too.
        if let Some(before) = before.filter(|_| is_there) {
            fixed.check(
                at,
                &schema.shapes.root(),
                (&before.0, after.as_ref().map(|it| &it.0)),
                sink,
            );
        }
        return;
    };
    let mut shapes = schema.shapes.root();
    for name in way.segments() {
        if fixed.is(&shapes) {
            break;
        }
        shapes = schema.shapes.member(&shapes, name);
    }
    fixed.check(path, &shapes, (&before.0, after.as_ref().map(|it| &it.0)), sink);
}

struct Fixed<'a> {
    schema: &'a Schema,
}

impl Fixed<'_> {
    fn is(&self, shapes: &[usize]) -> bool {
        shapes.iter().any(|it| self.schema.shapes.get(*it).is_fixed)
    }

    /// Adds a violation for each fixed value that has changed.
    fn check(
        &self,
        path: &Pointer,
        shapes: &[usize],
        (before, after): (&Node, Option<&Node>),
        sink: &mut Sink,
    ) {
        if self.is(shapes) {
            if after != Some(before) {
                sink.push(|| Violation::of_fact(path, "it stays as it was set first"));
            }
            return;
        }
        // If the map is gone, its fixed facts may go too.
        let (Node::Map(before), Some(Node::Map(after))) = (before, after) else { return };
        for (name, node) in &**before {
            let shapes = self.schema.shapes.member(shapes, name);
            self.check(&path.join(name), &shapes, (node, after.get(name)), sink);
        }
    }
}

/// Returns the smallest parts of the facts that must be checked again, each with its part of the schema.
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
        // If only a value changed, the map still has the same names.
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
        if schema.shapes.validator(shape).is_none() {
            return all;
        }
        if !targets.iter().any(|(other, _)| at.is_within(other)) {
            targets.retain(|(other, _)| !other.is_within(&at));
            targets.push((at, shape));
        }
    }
    targets
}

/// Whether facts are complete.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Extent {
    /// They are.
    Whole,
    /// Layers may add more facts.
    Part,
}

/// Checks facts against one schema.
struct Judging<'a> {
    /// All schemas: a violation of one schema must not show a secret of another.
    schemas: &'a Schemas,
    path: &'a Pointer,
    schema: &'a Schema,
    after: &'a Tree,
    extent: Extent,
}

impl Judging<'_> {
    /// Checks a part of the facts against its part of the schema.
    fn judge(&self, (at, shape): (&Pointer, usize), sink: &mut Sink) {
        let Some(tree) = self.after.at(at) else { return };
        let Some(validator) = self.schema.shapes.validator(shape) else { return };
        for error in validator.iter_errors(&tree.to_value()) {
            // A name in a list may be no valid segment of a path.
            let within = error.instance_path().to_string().parse::<Pointer>().ok();
            let path = within.as_ref().unwrap_or(&Pointer::root()).below(at);
            self.tell(&path, within.is_some(), &error, sink);
        }
    }

    /// Converts an error of a validator to violations, without secrets.
    fn tell(&self, path: &Pointer, is_exact: bool, error: &ValidationError<'_>, sink: &mut Sink) {
        match error.kind() {
            ValidationErrorKind::AdditionalProperties { unexpected }
            | ValidationErrorKind::UnevaluatedProperties { unexpected } => {
                let known = self.names_at(path);
                for name in unexpected {
                    sink.push(|| {
                        let help = did_you_mean(name, known.iter().copied());
                        let help = help.or_else(|| there_are(&known));
                        Violation::of_fact(&path.join(name), "the schema knows no such fact")
                            .help(help)
                    });
                }
            }
            ValidationErrorKind::PropertyNames { error } => sink.push(|| {
                let name = error.instance().as_str().unwrap_or_default();
                let message = error.masked_with("the name").to_string();
                Violation::of_fact(&path.join(name), message).help(help_of(error.kind()))
            }),
            kind if self.extent == Extent::Part && is_of_the_whole(kind) => {}
            kind => sink.push(|| {
                let violation =
                    Violation::of_fact(path, error.masked_with("the value").to_string());
                let violation = violation.help(help_of(kind));
                let is_scalar = !error.instance().is_object() && !error.instance().is_array();
                let shows = is_scalar && is_exact && !self.schemas.is_sensitive(path);
                if shows { violation.value(error.instance()) } else { violation }
            }),
        }
    }

    /// Returns the names that the schema knows for the members at a path.
    fn names_at(&self, path: &Pointer) -> Vec<&str> {
        let way = path.strip_prefix(self.path).unwrap_or_default();
        let shapes = self.schema.shapes.at(way.parts());
        shapes.into_iter().flat_map(|it| self.schema.shapes.get(it).known_names()).collect()
    }
}

/// Whether facts with this error may become valid when other facts are added.
fn is_of_the_whole(kind: &ValidationErrorKind) -> bool {
    matches!(
        kind,
        ValidationErrorKind::Required { .. }
            | ValidationErrorKind::MinProperties { .. }
            | ValidationErrorKind::AnyOf { .. }
            | ValidationErrorKind::OneOfNotValid { .. }
            | ValidationErrorKind::OneOfMultipleValid { .. }
            | ValidationErrorKind::Not { .. }
    )
}

fn help_of(kind: &ValidationErrorKind) -> Option<String> {
    match kind {
        ValidationErrorKind::Format { format } => format::find(format).map(|it| it.help.to_owned()),
        _ => None,
    }
}
