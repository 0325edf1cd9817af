//! The values of a manifest as they were written, with their places.

use std::fmt;
use std::ops::Range;

use indexmap::IndexMap;
use serde_json::Number;

/// A value as it was written, with where it was written.
#[derive(Debug, Clone)]
pub(crate) struct Node {
    /// The bytes of the source that it covers; for a collection, where it begins.
    pub(crate) span: Range<usize>,
    pub(crate) data: Data,
}

/// The content of a node.
#[derive(Clone, PartialEq)]
pub(crate) enum Data {
    Null,
    Bool(bool),
    Number(Number),
    String(String),
    List(Vec<Node>),
    Map(Map),
}

/// Shows the names of maps, and no values.
impl fmt::Debug for Data {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Null => f.write_str("null"),
            Self::Bool(_) => f.write_str("a boolean"),
            Self::Number(_) => f.write_str("a number"),
            Self::String(_) => f.write_str("a text"),
            Self::List(items) => write!(f, "a list of {}", items.len()),
            Self::Map(map) => f.debug_set().entries(map.keys()).finish(),
        }
    }
}

/// A map in the order in which it was written.
pub(crate) type Map = IndexMap<String, Entry>;

/// The value under a key, and where the key was written.
#[derive(Debug, Clone)]
pub(crate) struct Entry {
    pub(crate) key: Range<usize>,
    pub(crate) value: Node,
}

/// Values are equal wherever they were written.
impl PartialEq for Node {
    fn eq(&self, other: &Self) -> bool {
        self.data == other.data
    }
}

impl PartialEq for Entry {
    fn eq(&self, other: &Self) -> bool {
        self.value == other.value
    }
}

impl Node {
    /// Returns the kind of the value, for messages.
    pub(crate) fn description(&self) -> &'static str {
        match self.data {
            Data::Null => "nothing",
            Data::Bool(_) => "a boolean",
            Data::Number(_) => "a number",
            Data::String(_) => "a string",
            Data::List(_) => "a list",
            Data::Map(_) => "a map",
        }
    }
}
