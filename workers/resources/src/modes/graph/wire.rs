//! Graphs as text, to be sent to another machine.

use std::collections::{BTreeMap, HashSet};
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use serde::Deserialize;

use crate::base::caught::caught;
use crate::declare::declaration::Place;
use crate::declare::surroundings::Surroundings;
use crate::kind::contract::Kind;
use crate::kind::kinds::Kinds;
use crate::modes::graph::error::{GraphError, NodeError};
use crate::modes::graph::node::{Declared, Node};
use crate::modes::graph::{Graph, MAX_ERRORS};

/// The one format there is so far.
const FORMAT: u32 = 1;

/// How large a graph may be that is received, in bytes.
const MAX_BYTES: usize = 64 * 1024 * 1024;

/// How many nodes it may have.
const MAX_NODES: usize = 1_000_000;

#[derive(Deserialize)]
#[serde(deny_unknown_fields, expecting = "a map with format, head and layers")]
struct Received {
    format: u32,
    head: String,
    layers: Vec<Vec<Declared>>,
}

/// The format of what cannot be read otherwise.
#[derive(Deserialize)]
#[serde(expecting = "a map with format, head and layers")]
struct Format {
    format: u32,
}

impl Graph {
    /// Writes the graph as JSON: `{"format": 1, "head": NAME, "layers": [[NODE, ..], ..]}`. Each node is
    /// in the first layer that comes after all that it requires, and the nodes of a layer are in the
    /// order of their names. A node has `name`, `type` and `config`, and if they say something
    /// `requires` (a map of names to `check`, `notify` or `reload`), `uses` (a map of attributes to
    /// `node` and `attribute`), `tags`, `readonly`, and `meta` as in a manifest.
    ///
    /// First each kind [makes the config fit to travel](crate::Resource::send), which may read files.
    /// Values of sensitive attributes are in the text as they are. Blocks for the disk.
    ///
    /// # Errors
    ///
    /// When a requirement is missing, there is a cycle, a node cannot travel, or the text would be larger
    /// than what is received.
    pub fn to_wire(
        &self,
        kinds: &Kinds,
        surroundings: &Surroundings,
    ) -> Result<String, GraphError> {
        let (mut errors, mut bytes) = (Vec::new(), 0);
        let mut layers = Vec::new();
        for layer in self.layers()? {
            let mut sent = Vec::with_capacity(layer.len());
            for node in layer {
                let mut node = node.clone();
                travel(&mut node, kinds, &mut errors, |kind, config| {
                    kind.send(config, surroundings)
                });
                let text = serde_json::to_string(&node.declared).map_err(|err| wire(&err))?;
                bytes += text.len() + 1;
                // Asked each time, as a node may bring a whole file along.
                require_small(bytes, self.nodes.len())?;
                sent.push(text);
            }
            layers.push(format!("[{}]", sent.join(",")));
        }
        GraphError::of(errors)?;
        let head = serde_json::to_string(self.head()).map_err(|err| wire(&err))?;
        let layers = layers.join(",");
        let text = format!("{{\"format\":{FORMAT},\"head\":{head},\"layers\":[{layers}]}}");
        require_small(text.len(), self.nodes.len())?;
        Ok(text)
    }

    /// Reads what [`to_wire`](Self::to_wire) has written, of at most 64 MiB and 1,000,000 nodes. Then each
    /// kind [fills in](crate::Resource::receive) what only this machine knows.
    ///
    /// # Errors
    ///
    /// When it is no such text, or of another format; when a name is there twice, a node requires one
    /// that is in no layer before it, a kind is unknown, or a node cannot be received. It is refused as
    /// a whole.
    pub fn from_wire(
        text: &str,
        kinds: &Kinds,
        surroundings: &Surroundings,
    ) -> Result<Self, GraphError> {
        require_small(text.len(), 0)?;
        let received: Result<Received, _> = serde_json::from_str(text);
        let format = match &received {
            Ok(received) => received.format,
            Err(_) => serde_json::from_str(text).map_or(FORMAT, |Format { format }| format),
        };
        if format != FORMAT {
            return Err(wire(&format!("its format is {format}, and {FORMAT} is spoken here")));
        }
        let Received { head, layers, .. } = received.map_err(|err| wire(&err))?;
        let count: usize = layers.iter().map(Vec::len).sum();
        require_small(text.len(), count)?;
        let all = layers.iter().flatten().map(|declared| declared.name.clone());
        let all: HashSet<String> = all.collect();
        let mut nodes: BTreeMap<String, Node> = BTreeMap::new();
        let mut errors = Vec::new();
        for (line, layer) in layers.into_iter().enumerate() {
            let mut received = Vec::with_capacity(layer.len());
            for (column, declared) in layer.into_iter().enumerate() {
                // In messages a layer is a line of the text.
                let file = PathBuf::from("wire");
                let place = Place { file, line: line + 1, column: column + 1 };
                let node = Node { declared, place };
                if errors.len() < MAX_ERRORS {
                    errors.extend(node.unmet(|it| all.contains(it), all.iter()));
                    errors.extend(node.later(|it| all.contains(it) && !nodes.contains_key(it)));
                }
                let Declared { name, config, uses, .. } = &node.declared;
                if let Some(attribute) = config.keys().find(|it| uses.contains_key(*it)) {
                    return Err(wire(&format!(
                        "node \"{name}\" has {attribute} in its config and in what it uses"
                    )));
                }
                received.push(node);
            }
            for node in received {
                let name = node.name().to_owned();
                if let Some(first) = nodes.insert(name.clone(), node) {
                    let place = first.place;
                    return Err(wire(&format!("there are two nodes \"{name}\", one at {place}")));
                }
            }
        }
        if !nodes.contains_key(&head) {
            return Err(wire(&format!("its head \"{head}\" is none of its nodes")));
        }
        GraphError::of(errors)?;
        // Only what is a graph is shown to the kinds.
        let mut errors = Vec::new();
        for node in nodes.values_mut() {
            travel(node, kinds, &mut errors, |kind, config| kind.receive(config, surroundings));
        }
        GraphError::of(errors)?;
        let nodes = nodes.into_iter().map(|(name, node)| (name, Arc::new(node))).collect();
        Ok(Self { head, nodes })
    }
}

/// Refuses a graph that is larger than what is received.
fn require_small(bytes: usize, nodes: usize) -> Result<(), GraphError> {
    if bytes > MAX_BYTES {
        return Err(wire(&format!("it has {bytes} bytes or more, and 64 MiB are the most")));
    }
    if nodes > MAX_NODES {
        return Err(wire(&format!("it has {nodes} nodes, and 1,000,000 are the most")));
    }
    Ok(())
}

/// Returns the error of a text as a whole.
fn wire(error: &dyn fmt::Display) -> GraphError {
    NodeError::Wire { message: error.to_string() }.into()
}

impl Node {
    /// Returns what the node requires and comes too late.
    fn later(&self, is_later: impl Fn(&str) -> bool) -> Vec<NodeError> {
        let late = self.requires().filter(|required| is_later(required));
        let late = late.map(|required| NodeError::Later {
            name: self.name().to_owned(),
            place: self.place.clone(),
            required: required.to_owned(),
        });
        late.collect()
    }
}

/// Has the kind of a node change its config, before it is sent or after it was received.
fn travel(
    node: &mut Node,
    kinds: &Kinds,
    errors: &mut Vec<NodeError>,
    change: impl FnOnce(
        &dyn Kind,
        &mut crate::declare::declaration::Config,
    ) -> Result<(), crate::base::error::BoxError>,
) {
    let (name, place) = (node.name().to_owned(), node.place.clone());
    match kinds.get(node.kind()) {
        Err(error) => errors.push(NodeError::Kind { name, place, error }),
        Ok(kind) => {
            let changed = caught(|| change(&**kind, &mut node.declared.config));
            if let Err(error) = changed.map_err(Into::into).flatten() {
                errors.push(NodeError::Travel { name, place, error });
            }
        }
    }
}
