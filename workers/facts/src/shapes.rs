//! A JSON Schema split into parts: each part is the schema of a part of the facts.

mod shape;
mod split;

use std::sync::Arc;

use jsonschema::Validator;
use serde_json::Value;

use self::shape::{LONGEST_CHAIN, Shape, options, part};
use self::split::split;
use crate::violation::Violation;

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

/// Returns whether a text matches a pattern of a schema.
pub(crate) fn matches(pattern: &str, text: &str) -> bool {
    let validator = options().build(&serde_json::json!({"pattern": pattern}));
    validator.is_ok_and(|validator| validator.is_valid(&text.into()))
}

fn refused(error: &jsonschema::ValidationError<'_>) -> Violation {
    let at = error.instance_path().to_string().parse().unwrap_or_default();
    Violation::of_document(&at, error.masked_with("this").to_string())
}
