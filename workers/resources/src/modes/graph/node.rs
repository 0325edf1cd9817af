//! One resource of a graph, with the nodes that it requires.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::panic::Location;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::declare::action::ActionType;
use crate::declare::declaration::{Config, OnChange, Place};
use crate::declare::meta::Meta;
use crate::declare::params::written;
use crate::kind::kinds::Kinds;
use crate::kind::resource::Resource;

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
#[derive(Clone)]
pub struct Node {
    pub(super) declared: Declared,
    /// Where in which source file the node was made, for messages.
    pub(super) place: Place,
}

impl fmt::Debug for Node {
    // The config may hold secrets.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { declared: Declared { name, kind, .. }, place } = self;
        write!(f, "Node {name:?} of type {kind:?} at {place}")
    }
}

impl PartialEq for Node {
    fn eq(&self, other: &Self) -> bool {
        self.declared == other.declared
    }
}

/// What a node declares, as it goes over the wire.
#[derive(Clone, PartialEq, Serialize, Deserialize)]
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
    pub(super) readonly: bool,
    #[serde(default, skip_serializing_if = "Meta::is_default")]
    pub(super) meta: Meta,
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
            readonly: false,
            meta: Meta::default(),
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

    /// Has only its state read: what differs is nobody's concern.
    #[must_use]
    pub fn readonly(mut self) -> Self {
        self.declared.readonly = true;
        self
    }

    /// Sets how it is treated.
    #[must_use]
    pub fn meta(mut self, meta: Meta) -> Self {
        self.declared.meta = meta;
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

    /// Returns the actions that its kind may want done; none if there is no such kind.
    pub fn produces(&self, kinds: &Kinds) -> Vec<ActionType> {
        kinds.get(self.kind()).map_or_else(|_| Vec::new(), |kind| kind.actions())
    }

    /// Returns the names of the nodes that it requires, in order.
    pub fn requires(&self) -> impl Iterator<Item = &str> {
        self.declared.requires.keys().map(String::as_str)
    }
}

impl Declared {
    /// Returns the name of the first thing in which two nodes differ. Its values may be secrets.
    pub(super) fn difference(&self, other: &Self) -> Option<String> {
        let mut attributes = self.config.keys().chain(other.config.keys());
        let in_config = attributes.find(|name| self.config.get(*name) != other.config.get(*name));
        let rest = [
            ("type", self.kind != other.kind),
            ("requires", self.requires != other.requires),
            ("uses", self.uses != other.uses),
            ("tags", self.tags != other.tags),
            ("readonly", self.readonly != other.readonly),
            ("meta", self.meta != other.meta),
        ];
        let rest = rest.into_iter().find_map(|(name, differs)| differs.then(|| name.to_owned()));
        in_config.map(|name| format!("config.{name}")).or(rest)
    }
}

impl Place {
    fn of(location: &Location<'_>) -> Self {
        let (line, column) = (location.line() as usize, location.column() as usize);
        Self { file: PathBuf::from(location.file()), line, column }
    }
}
