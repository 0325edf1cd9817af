use std::collections::{BTreeMap, BTreeSet};
use std::panic::Location;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::declaration::{Config, OnChange, Place};
use crate::params::written;
use crate::resource::Resource;
use crate::text::shown;

/// One resource of a [`Graph`](crate::Graph): a name, a kind, a config, and the names of the nodes that
/// it requires. Two nodes are equal if they declare the same, wherever they were made.
///
/// # Examples
///
/// ```
/// use crankcase_resources::Node;
///
/// let page = Node::new("page", "file")
///     .with("path", "/srv/www/index.html")
///     .using("content", "motd", "message")
///     .after("docroot");
/// assert_eq!(page.requires().collect::<Vec<_>>(), ["docroot", "motd"]);
/// ```
#[derive(Debug, Clone)]
pub struct Node {
    pub(super) declared: Declared,
    /// Where in which source file the node was made, for messages.
    pub(super) place: Place,
}

impl PartialEq for Node {
    fn eq(&self, other: &Self) -> bool {
        self.declared == other.declared
    }
}

/// What a node declares, as it goes over the wire.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, expecting = "a node: a map with name, type and config")]
pub(super) struct Declared {
    pub(super) name: String,
    #[serde(rename = "type")]
    pub(super) kind: String,
    pub(super) config: Config,
    /// By name: what the node requires, and what a change of it means.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(super) requires: BTreeMap<String, OnChange>,
    /// By attribute of the config: the state that it is taken from.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(super) uses: BTreeMap<String, Use>,
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub(super) tags: BTreeSet<String>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(super) noop: bool,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(super) reverse: bool,
}

/// An attribute of the state of a required node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Use {
    pub(super) node: String,
    pub(super) attribute: String,
}

impl Node {
    /// Returns a node with the config of a kind that is written in Rust.
    #[track_caller]
    pub fn of<R: Resource>(name: &str, config: R) -> Self {
        let mut node = Self::new(name, R::NAME);
        if let Value::Object(config) = written::<R>(&config.into()) {
            // What is not given need not be said.
            let given = config.into_iter().filter(|(_, value)| !value.is_null());
            node.declared.config.extend(given);
        }
        node
    }

    /// Returns a node of a kind by its name, with an empty config.
    #[track_caller]
    pub fn new(name: &str, kind: &str) -> Self {
        let declared = Declared {
            name: name.to_owned(),
            kind: kind.to_owned(),
            config: Config::new(),
            requires: BTreeMap::new(),
            uses: BTreeMap::new(),
            tags: BTreeSet::new(),
            noop: false,
            reverse: false,
        };
        Self { declared, place: Place::of(Location::caller()) }
    }

    /// Sets an attribute of the config.
    #[must_use]
    pub fn with(mut self, attribute: &str, value: impl Into<Value>) -> Self {
        self.declared.uses.remove(attribute);
        self.declared.config.insert(attribute.to_owned(), value.into());
        self
    }

    /// Has it come after the node with this name.
    #[must_use]
    pub fn after(mut self, node: &str) -> Self {
        self.declared.requires.entry(node.to_owned()).or_default();
        self
    }

    /// Has it come after the node with this name, and be notified when that one has changed.
    #[must_use]
    pub fn told_by(mut self, node: &str) -> Self {
        self.declared.requires.insert(node.to_owned(), OnChange::Notify);
        self
    }

    /// Takes an attribute of the config from the state of another node, which it then requires.
    #[must_use]
    pub fn using(mut self, attribute: &str, node: &str, of: &str) -> Self {
        self.declared.config.remove(attribute);
        let used = Use { node: node.to_owned(), attribute: of.to_owned() };
        self.declared.uses.insert(attribute.to_owned(), used);
        self.after(node)
    }

    /// Has it only ever looked at, and never changed.
    #[must_use]
    pub fn noop(mut self) -> Self {
        self.declared.noop = true;
        self
    }

    /// Has it put back as it was when it leaves the graph that is kept.
    #[must_use]
    pub fn reverse(mut self) -> Self {
        self.declared.reverse = true;
        self
    }

    /// Adds a word by which it can be chosen.
    #[must_use]
    pub fn tag(mut self, tag: &str) -> Self {
        self.declared.tags.insert(tag.to_owned());
        self
    }

    /// Returns the name.
    pub fn name(&self) -> &str {
        &self.declared.name
    }

    /// Returns the name of the kind.
    pub fn kind(&self) -> &str {
        &self.declared.kind
    }

    /// Returns the config, without the attributes that are taken from states.
    pub fn config(&self) -> &Config {
        &self.declared.config
    }

    /// Returns the names of the nodes that it requires, in order.
    pub fn requires(&self) -> impl Iterator<Item = &str> {
        self.declared.requires.keys().map(String::as_str)
    }
}

impl Declared {
    /// Returns the first thing in which two nodes differ, as each has it.
    pub(super) fn difference(&self, other: &Self) -> Option<(String, [String; 2])> {
        // Flat, so that an attribute is told and not the whole config.
        let flat = |declared: &Self| -> Option<BTreeMap<String, Value>> {
            let mut values = serde_json::to_value(declared).ok()?;
            let config = values.as_object_mut()?.remove("config")?;
            let attributes = config.as_object()?.iter();
            let attributes = attributes.map(|(name, it)| (format!("config.{name}"), it.clone()));
            let rest = values.as_object()?.iter().map(|(name, it)| (name.clone(), it.clone()));
            Some(attributes.chain(rest).collect())
        };
        let (one, two) = (flat(self)?, flat(other)?);
        let name = one.keys().chain(two.keys()).find(|name| one.get(*name) != two.get(*name))?;
        let in_words = |values: &BTreeMap<String, Value>| {
            values.get(name).map_or_else(|| "not given".to_owned(), shown)
        };
        Some((name.clone(), [in_words(&one), in_words(&two)]))
    }
}

impl Place {
    fn of(location: &Location<'_>) -> Self {
        let (line, column) = (location.line() as usize, location.column() as usize);
        Self { file: PathBuf::from(location.file()), line, column }
    }
}
