//! The tree of facts. One state and the next share the parts that did not change.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use crankcase_workers::pointer_segment;
use serde::{Serialize, Serializer};
use serde_json::Value;
use smol_str::SmolStr;

use crate::pointer::{DEEPEST, LONGEST_SEGMENT, Pointer};

/// Facts: a tree of maps, or one value. Cheap to clone; clones share their content.
///
/// The members of a map are sorted by name, so their order in a document does not matter. A list is one value: it
/// changes as a whole, although a [`Pointer`] may lead into it.
#[derive(Clone)]
pub struct Tree(pub(crate) Node);

/// A map of facts, or a value.
#[derive(Clone)]
pub(crate) enum Node {
    Map(Arc<Members>),
    /// Anything but a map.
    Leaf(Arc<Value>),
}

pub(crate) type Members = BTreeMap<SmolStr, Node>;

impl fmt::Debug for Tree {
    /// Writes the kind of the tree, but no values: they may be secrets.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Node::Map(members) => write!(f, "Tree({} members)", members.len()),
            Node::Leaf(_) => f.write_str("Tree(a value)"),
        }
    }
}

impl Default for Tree {
    /// Returns an empty map.
    fn default() -> Self {
        Self(Node::Map(Arc::default()))
    }
}

impl Tree {
    /// Converts a value to facts.
    ///
    /// # Errors
    ///
    /// The path of the refused value, and the reason: it is more than 64 levels deep, or its name is empty or longer
    /// than 1,024 bytes.
    pub fn from_value(value: Value) -> Result<Self, (Pointer, String)> {
        Self::of_value_at(&Pointer::root(), &value)
    }

    /// Converts a value to the facts at a path. The levels of the path count towards the limit of 64.
    pub(crate) fn of_value_at(path: &Pointer, value: &Value) -> Result<Self, (Pointer, String)> {
        let mut way = path.parts().to_vec();
        match node_of(value, &mut way) {
            Ok(node) => Ok(Self(node)),
            Err(why) => Err((way.iter().map(SmolStr::as_str).collect(), why)),
        }
    }

    /// Returns the number of values and maps, including those in lists.
    pub(crate) fn count(&self) -> usize {
        match &self.0 {
            Node::Leaf(value) => count(value),
            Node::Map(members) => {
                1 + members.values().map(|node| Self(node.clone()).count()).sum::<usize>()
            }
        }
    }

    /// Returns the facts at a path; none if nothing is there.
    pub fn at(&self, path: &Pointer) -> Option<Self> {
        let mut node = &self.0;
        for (index, segment) in path.parts().iter().enumerate() {
            match node {
                Node::Map(members) => node = members.get(segment)?,
                Node::Leaf(value) => {
                    let mut value = &**value;
                    for segment in &path.parts()[index..] {
                        value = member(value, segment)?;
                    }
                    return Some(Self(Node::Leaf(Arc::new(value.clone()))));
                }
            }
        }
        Some(Self(node.clone()))
    }

    /// Returns the map or the value at a path; none if nothing is there, or if the path leads into a value.
    pub(crate) fn node(&self, path: &Pointer) -> Option<&Node> {
        path.parts().iter().try_fold(&self.0, |node, segment| match node {
            Node::Map(members) => members.get(segment),
            Node::Leaf(_) => None,
        })
    }

    /// Returns the facts as one value.
    pub fn to_value(&self) -> Value {
        self.0.to_value()
    }

    /// Returns the names of the members; no names if the tree is no map.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        let members = match &self.0 {
            Node::Map(members) => Some(members),
            Node::Leaf(_) => None,
        };
        members.into_iter().flat_map(|members| members.keys().map(SmolStr::as_str))
    }

    /// Returns whether the tree is a map.
    pub fn is_map(&self) -> bool {
        matches!(self.0, Node::Map(_))
    }

    /// Puts a value at a path, and creates the maps on the way to it. Replaces values that are in the way.
    pub(crate) fn put(&mut self, path: &Pointer, new: Node) {
        let mut node = &mut self.0;
        for segment in path.parts() {
            if let Node::Leaf(_) = node {
                *node = Self::default().0;
            }
            let Node::Map(members) = node else { return };
            node =
                Arc::make_mut(members).entry(segment.clone()).or_insert_with(|| Self::default().0);
        }
        *node = new;
    }

    /// Removes the fact at a path, if there is one. Does not look into lists.
    pub(crate) fn remove(&mut self, path: &Pointer) {
        let Some((last, above)) = path.parts().split_last() else { return };
        let mut node = &mut self.0;
        for segment in above {
            let Node::Map(members) = node else { return };
            match Arc::make_mut(members).get_mut(segment) {
                Some(next) => node = next,
                None => return,
            }
        }
        if let Node::Map(members) = node {
            Arc::make_mut(members).remove(last);
        }
    }
}

impl Node {
    /// Calls `visit` with each value and each map, each with its path as text. `path` is the path of this node; it has
    /// the same text afterwards.
    pub(crate) fn each<E>(
        &self,
        path: &mut String,
        visit: &mut impl FnMut(&str, &Self) -> Result<(), E>,
    ) -> Result<(), E> {
        visit(if path.is_empty() { "/" } else { path }, self)?;
        if let Self::Map(members) = self {
            let length = path.len();
            for (name, node) in &**members {
                path.push('/');
                path.push_str(&pointer_segment(name));
                node.each(path, visit)?;
                path.truncate(length);
            }
        }
        Ok(())
    }

    pub(crate) fn to_value(&self) -> Value {
        match self {
            Self::Leaf(value) => (**value).clone(),
            Self::Map(members) => {
                let members = members.iter();
                members.map(|(name, node)| (name.to_string(), node.to_value())).collect()
            }
        }
    }

    /// Returns whether both are the same node, and therefore equal. Equal nodes need not be the same.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Map(one), Self::Map(other)) => Arc::ptr_eq(one, other),
            (Self::Leaf(one), Self::Leaf(other)) => Arc::ptr_eq(one, other),
            _ => false,
        }
    }
}

impl Serialize for Node {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Leaf(value) => value.serialize(serializer),
            Self::Map(members) => {
                let members = members.iter().map(|(name, node)| (name.as_str(), node));
                serializer.collect_map(members)
            }
        }
    }
}

impl Serialize for Tree {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.serialize(serializer)
    }
}

impl PartialEq for Node {
    fn eq(&self, other: &Self) -> bool {
        self.is_same(other)
            || match (self, other) {
                (Self::Map(one), Self::Map(other)) => one == other,
                (Self::Leaf(one), Self::Leaf(other)) => one == other,
                _ => false,
            }
    }
}

impl PartialEq for Tree {
    fn eq(&self, other: &Self) -> bool {
        self.0 == other.0
    }
}

/// Returns the item of a list, or the member of a map in a list.
pub(crate) fn member<'a>(value: &'a Value, segment: &str) -> Option<&'a Value> {
    match value {
        Value::Array(items) => items.get(index(segment)?),
        Value::Object(map) => map.get(segment),
        _ => None,
    }
}

/// Reads the position of an item; none if it has leading zeros or is no number.
pub(crate) fn index(segment: &str) -> Option<usize> {
    let is_plain = segment == "0" || !segment.starts_with('0');
    let is_number = !segment.is_empty() && segment.bytes().all(|byte| byte.is_ascii_digit());
    (is_plain && is_number).then(|| segment.parse().ok())?
}

fn node_of(value: &Value, way: &mut Vec<SmolStr>) -> Result<Node, String> {
    let Value::Object(map) = value else {
        let mut value = value.clone();
        if is_deeper(&value, DEEPEST.saturating_sub(way.len())) {
            return Err(TOO_DEEP.to_owned());
        }
        make_normal(&mut value)?;
        return Ok(Node::Leaf(Arc::new(value)));
    };
    if way.len() >= DEEPEST {
        return Err(TOO_DEEP.to_owned());
    }
    let mut members = Members::new();
    for (name, value) in map {
        way.push(SmolStr::from(name.as_str()));
        check_name(name)?;
        let node = node_of(value, way)?;
        members.insert(way.pop().unwrap_or_default(), node);
    }
    Ok(Node::Map(Arc::new(members)))
}

/// The message for values that are nested too deep.
const TOO_DEEP: &str = "it is nested deeper than 64 levels";

fn check_name(name: &str) -> Result<(), String> {
    if name.is_empty() || name.len() > LONGEST_SEGMENT {
        return Err("the name of a fact has at least 1 byte and at most 1,024".to_owned());
    }
    Ok(())
}

/// Converts a value to its stored form, so that equal values have equal texts.
fn make_normal(value: &mut Value) -> Result<(), String> {
    match value {
        Value::Number(number) if number.as_f64() == Some(0.0) && number.is_f64() => {
            // -0.0 equals 0.0, but its text differs.
            *value = 0.0.into();
        }
        Value::Array(items) => items.iter_mut().try_for_each(make_normal)?,
        Value::Object(map) => {
            map.sort_keys();
            for (name, value) in map {
                check_name(name)?;
                make_normal(value)?;
            }
        }
        _ => {}
    }
    Ok(())
}

fn count(value: &Value) -> usize {
    match value {
        Value::Array(items) => 1 + items.iter().map(count).sum::<usize>(),
        Value::Object(map) => 1 + map.values().map(count).sum::<usize>(),
        _ => 1,
    }
}

/// Returns whether lists and maps in a value nest deeper than `levels`.
pub(crate) fn is_deeper(value: &Value, levels: usize) -> bool {
    match value {
        Value::Array(items) => levels == 0 || items.iter().any(|it| is_deeper(it, levels - 1)),
        Value::Object(map) => levels == 0 || map.values().any(|it| is_deeper(it, levels - 1)),
        _ => false,
    }
}
