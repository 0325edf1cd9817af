use std::collections::{BTreeMap, BTreeSet};
use std::panic::Location;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::declaration::{Config, OnChange, Place};
use crate::params::written;
use crate::resource::Resource;

/// One resource of a [`Graph`](crate::Graph): a name, a kind, a config, and the names of the nodes that
/// it requires.
///
/// # Examples
///
/// ```
/// use crankcase_resources::Node;
/// use serde_json::json;
///
/// let page = Node::new("page", "file", json!({"path": "/srv/www/index.html"}))
///     .using("content", "motd", "message")
///     .after("docroot");
/// assert_eq!(page.requires().collect::<Vec<_>>(), ["docroot", "motd"]);
/// ```
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Node {
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
    /// Where in which source file the node was made, for messages.
    #[serde(skip, default = "nowhere")]
    pub(super) place: Place,
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
        Self::new(name, R::NAME, written::<R>(&config.into()))
    }

    /// Returns a node of a kind by its name; `config` is a map of attributes. What is no map is refused by
    /// [`Graph::site`](crate::Graph::site).
    #[track_caller]
    pub fn new(name: &str, kind: &str, config: Value) -> Self {
        let config = match config {
            Value::Object(config) => config,
            // No kind has an attribute of this name.
            other => [("config is no map".to_owned(), other)].into_iter().collect(),
        };
        Self {
            name: name.to_owned(),
            kind: kind.to_owned(),
            config: config.into_iter().filter(|(_, value)| !value.is_null()).collect(),
            requires: BTreeMap::new(),
            uses: BTreeMap::new(),
            tags: BTreeSet::new(),
            noop: false,
            reverse: false,
            place: Place::of(Location::caller()),
        }
    }

    /// Has it come after the node with this name.
    #[must_use]
    pub fn after(mut self, node: &str) -> Self {
        self.requires.entry(node.to_owned()).or_default();
        self
    }

    /// Has it come after the node with this name, and be notified when that one has changed.
    #[must_use]
    pub fn told_by(mut self, node: &str) -> Self {
        self.requires.insert(node.to_owned(), OnChange::Notify);
        self
    }

    /// Takes an attribute of the config from the state of another node, which it then requires.
    #[must_use]
    pub fn using(mut self, attribute: &str, node: &str, of: &str) -> Self {
        self.config.remove(attribute);
        let used = Use { node: node.to_owned(), attribute: of.to_owned() };
        self.uses.insert(attribute.to_owned(), used);
        self.after(node)
    }

    /// Has it only ever looked at, and never changed.
    #[must_use]
    pub fn noop(self) -> Self {
        Self { noop: true, ..self }
    }

    /// Has it put back as it was when it leaves the graph that is kept.
    #[must_use]
    pub fn reverse(self) -> Self {
        Self { reverse: true, ..self }
    }

    /// Adds a word by which it can be chosen.
    #[must_use]
    pub fn tag(mut self, tag: &str) -> Self {
        self.tags.insert(tag.to_owned());
        self
    }

    /// Returns the name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the name of the kind.
    pub fn kind(&self) -> &str {
        &self.kind
    }

    /// Returns the config, without the attributes that are taken from states.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// Returns the names of the nodes that it requires, in order.
    pub fn requires(&self) -> impl Iterator<Item = &str> {
        self.requires.keys().map(String::as_str)
    }

    /// Returns the first thing in which two nodes differ, as each has it.
    pub(super) fn difference(&self, other: &Self) -> Option<(String, [String; 2])> {
        let (one, two) = (serde_json::to_value(self).ok()?, serde_json::to_value(other).ok()?);
        let keys = one.as_object()?.keys().chain(two.as_object()?.keys());
        let shown = |value: Option<&Value>| match value {
            Some(value) => crate::text::shown(value),
            None => "nothing".to_owned(),
        };
        let differ = |key: &str, one: Option<&Value>, two: Option<&Value>| {
            (one != two).then(|| (key.to_owned(), [shown(one), shown(two)]))
        };
        let attributes = self.config.keys().chain(other.config.keys());
        let in_config = |name: &String| {
            differ(&format!("config.{name}"), self.config.get(name), other.config.get(name))
        };
        let mut first = attributes.filter_map(in_config);
        first.next().or_else(|| {
            let mut keys = keys.filter_map(|key| differ(key, one.get(key), two.get(key)));
            keys.next()
        })
    }
}

/// Two nodes are equal if they declare the same, wherever they were made.
impl PartialEq for Node {
    fn eq(&self, other: &Self) -> bool {
        (&self.name, &self.kind, &self.config) == (&other.name, &other.kind, &other.config)
            && (&self.requires, &self.uses, &self.tags)
                == (&other.requires, &other.uses, &other.tags)
            && (self.noop, self.reverse) == (other.noop, other.reverse)
    }
}

impl Place {
    fn of(location: &Location<'_>) -> Self {
        let (line, column) = (location.line() as usize, location.column() as usize);
        Self { file: PathBuf::from(location.file()), line, column }
    }
}

fn nowhere() -> Place {
    Place { file: PathBuf::from("wire"), line: 1, column: 1 }
}
