//! Graphs of resources that are declared from Rust.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::Arc;

pub use self::error::{GraphError, NodeError};
pub use self::node::Node;
use crate::base::text::did_you_mean;
use crate::declare::order::{Edges, Order};
use crate::kind::resource::Resource;

/// The most errors that are reported. For each node that is missing, the search for the nearest
/// name looks at all nodes.
const MAX_ERRORS: usize = 20;

mod error;
mod node;
mod site;
mod wire;

/// Resources that are declared from Rust, as a manifest declares them in YAML.
///
/// A graph has nodes with different names. One of them is its head: to require a graph is to require its
/// head. A node that requires a graph takes all nodes of that graph in. A node that requires a name needs
/// a [`merge`](Self::merge) that brings it.
///
/// # Examples
///
/// ```
/// use crankcase_resources::{Graph, Node};
///
/// let docroot = Graph::from(Node::new("docroot", "file").with("path", "/srv/www/"));
/// let page = Node::new("page", "file").with("path", "/srv/www/index.html");
/// let by_graph = Graph::from(page.clone()).after(&docroot)?;
/// let by_name = Graph::from(page.after("docroot")).merge(&docroot)?;
///
/// assert_eq!(by_graph, by_name);
/// assert_eq!((by_graph.head(), by_graph.layers()?.len()), ("page", 2));
/// # Ok::<(), crankcase_resources::GraphError>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct Graph {
    head: String,
    nodes: BTreeMap<String, Arc<Node>>,
}

impl From<Node> for Graph {
    fn from(node: Node) -> Self {
        let head = node.name().to_owned();
        Self { nodes: BTreeMap::from([(head.clone(), Arc::new(node))]), head }
    }
}

impl Graph {
    /// Returns a graph of one node, with the config of a kind that is written in Rust.
    #[track_caller]
    pub fn of<R: Resource>(name: &str, config: R) -> Self {
        Node::of(name, config).into()
    }

    /// Has the head come after the head of another graph, and takes in the nodes of that graph.
    ///
    /// # Errors
    ///
    /// When two nodes with one name differ.
    pub fn after(self, other: &Self) -> Result<Self, GraphError> {
        self.change(|node| node.after(&other.head)).join(other)
    }

    /// Has the head come after the head of another graph and be notified when that one changes, and takes
    /// in the nodes of that graph.
    ///
    /// # Errors
    ///
    /// When two nodes with one name differ.
    pub fn told_by(self, other: &Self) -> Result<Self, GraphError> {
        self.change(|node| node.told_by(&other.head)).join(other)
    }

    /// Sets an attribute of the head to an attribute in the state of another graph's head, and takes in the
    /// nodes of that graph.
    ///
    /// # Errors
    ///
    /// When two nodes with one name differ.
    pub fn using(self, attribute: &str, other: &Self, of: &str) -> Result<Self, GraphError> {
        self.change(|node| node.using(attribute, &other.head, of)).join(other)
    }

    /// Returns the graph with its head changed. The head keeps its name.
    #[must_use]
    fn change(mut self, change: impl FnOnce(Node) -> Node) -> Self {
        if let Some(head) = self.nodes.get_mut(&self.head) {
            let changed = change(Node::clone(head));
            *head = Arc::new(changed);
        }
        self
    }

    /// Returns both graphs as one; nodes that are equal become one. If the head of one requires the head
    /// of the other, directly, it becomes the head; otherwise the first one does.
    ///
    /// # Errors
    ///
    /// When two nodes with one name differ.
    pub fn merge(self, other: &Self) -> Result<Self, GraphError> {
        let requires = |graph: &Self, head: &str| {
            graph
                .nodes
                .get(&graph.head)
                .is_some_and(|node| node.declared.requires.contains_key(head))
        };
        let is_second = requires(other, &self.head) && !requires(&self, &other.head);
        let head = if is_second { other.head.clone() } else { self.head.clone() };
        Ok(Self { head, ..self.join(other)? })
    }

    /// Adds the nodes of another graph.
    fn join(mut self, other: &Self) -> Result<Self, GraphError> {
        let mut errors = Vec::new();
        for (name, node) in &other.nodes {
            match self.nodes.entry(name.clone()) {
                Entry::Vacant(free) => {
                    free.insert(Arc::clone(node));
                }
                Entry::Occupied(first) => errors.extend(different(first.get(), node)),
            }
        }
        GraphError::of(errors)?;
        Ok(self)
    }

    /// Returns the name of the head.
    pub fn head(&self) -> &str {
        &self.head
    }

    /// Returns the node with this name.
    pub fn node(&self, name: &str) -> Option<&Node> {
        self.nodes.get(name).map(|node| &**node)
    }

    /// Returns the nodes in the order of their names.
    pub fn nodes(&self) -> impl Iterator<Item = &Node> {
        self.nodes.values().map(|node| &**node)
    }

    /// Returns the nodes in layers: each node is in the first layer that comes after all that it requires.
    /// So the nodes of a layer do not require each other. They are in the order of their names.
    ///
    /// # Errors
    ///
    /// When a requirement is missing, or there is a cycle.
    pub fn layers(&self) -> Result<Vec<Vec<&Node>>, GraphError> {
        let nodes: Vec<&Node> = self.nodes().collect();
        let order = order(&nodes)?;
        let mut depths = vec![0; nodes.len()];
        for node in order.nodes() {
            let before = order.inputs(*node).iter().map(|input| depths[*input] + 1);
            depths[*node] = before.max().unwrap_or(0);
        }
        let count = depths.iter().max().map_or(0, |depth| depth + 1);
        let mut layers = vec![Vec::new(); count];
        for (node, depth) in nodes.into_iter().zip(depths) {
            layers[depth].push(node);
        }
        Ok(layers)
    }
}

/// Says in what two nodes with one name differ, if they do.
fn different(first: &Node, second: &Node) -> Option<NodeError> {
    if first == second {
        return None;
    }
    let attribute = first.declared.difference(&second.declared)?;
    Some(NodeError::Different {
        name: second.name().to_owned(),
        place: second.place.clone(),
        other: first.place.clone(),
        attribute,
    })
}

/// Puts nodes, which are in the order of their names, into the order of their requirements.
fn order(nodes: &[&Node]) -> Result<Order, GraphError> {
    let find = |name: &str| nodes.binary_search_by(|node| node.name().cmp(name)).ok();
    let mut edges = Edges::new(nodes.len());
    let mut errors = Vec::new();
    for (index, node) in nodes.iter().enumerate() {
        for (required, on_change) in &node.declared.requires {
            if let Some(required) = find(required) {
                edges.depends(index, required, *on_change);
            }
        }
        let names = nodes.iter().map(|node| &node.declared.name);
        errors.extend(node.unmet(|required| find(required).is_some(), names));
        if errors.len() >= MAX_ERRORS {
            break;
        }
    }
    GraphError::of(errors)?;
    Order::from_edges(edges).map_err(|cycles| {
        let name = |index: usize| nodes[index].name().to_owned();
        let cycles = cycles.into_iter().map(|path| path.into_iter().map(name).collect());
        GraphError::of(cycles.map(|path| NodeError::Cycle { path }).collect())
            .expect_err("where there is no order there is a cycle")
    })
}

impl Node {
    /// Returns what the node requires and is not there, and what it uses without requiring it.
    fn unmet<'a>(
        &self,
        is_there: impl Fn(&str) -> bool,
        names: impl Iterator<Item = &'a String> + Clone,
    ) -> Vec<NodeError> {
        let (name, place) = (|| self.name().to_owned(), || self.place.clone());
        let missing = self.declared.requires.keys().filter(|required| !is_there(required));
        let missing = missing.take(MAX_ERRORS).map(|required| NodeError::Missing {
            name: name(),
            place: place(),
            required: required.clone(),
            hint: did_you_mean(required, names.clone().map(String::as_str)),
        });
        let uses = self.declared.uses.values().map(|used| &used.node);
        let uses = uses.filter(|node| !self.declared.requires.contains_key(*node));
        let uses = uses.map(|used| NodeError::NotRequired {
            name: name(),
            place: place(),
            used: used.clone(),
        });
        missing.chain(uses).collect()
    }
}
