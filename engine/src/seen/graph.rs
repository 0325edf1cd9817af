//! The dependency graph of an engine, as plain data.

use std::fmt::{self, Write};

use serde::Serialize;

use super::near::Near;
use super::report::WorkerState;
use crate::vocabulary::value::{serialize_short, short_name};

/// The dependency graph of an engine with the states of its workers. It serialises to JSON, and
/// [`to_dot`](Self::to_dot) writes it for Graphviz.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Graph {
    /// The engine's path.
    pub path: String,
    /// All names, sorted. Includes names that are not installed but still in use.
    pub nodes: Vec<GraphNode>,
    /// All declared inputs, sorted.
    pub edges: Vec<GraphEdge>,
}

/// One name.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[non_exhaustive]
pub struct GraphNode {
    /// The name.
    pub name: String,
    /// The worker's path.
    pub path: String,
    /// What its worker is doing.
    pub state: WorkerState,
    /// Whether it is degraded.
    #[serde(skip_serializing_if = "is_false")]
    pub is_degraded: bool,
    /// The names of other workers of its engine that it says it waits for, or that hold it back:
    /// see [`Health::waits_for`](crate::Health::waits_for) and
    /// [`Health::held_back`](crate::Health::held_back).
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub waits_for: Vec<String>,
    /// How many names use it and are not in the graph, because the graph is only a part.
    #[serde(skip_serializing_if = "is_zero")]
    pub more_users: usize,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks for it")]
fn is_false(value: &bool) -> bool {
    !value
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks for it")]
fn is_zero(count: &usize) -> bool {
    *count == 0
}

/// One declared input.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[non_exhaustive]
pub struct GraphEdge {
    /// The name that declares the input.
    pub user: String,
    /// The name that the input refers to.
    pub input: String,
    /// `required`, `optional`, `live`, `live required` or `live set`. `member` from a family that is
    /// followed to a name that belongs to it. `awaited` for what is none of
    /// the user's inputs, but an output that it now waits for through the engine.
    pub need: &'static str,
    /// The type that is asked for. Written without the paths of modules.
    #[serde(serialize_with = "serialize_short")]
    pub output: &'static str,
}

impl GraphEdge {
    /// Returns the type that is asked for without the paths of modules, as it is serialised.
    pub fn output_name(&self) -> String {
        short_name(self.output)
    }
}

impl Graph {
    pub(crate) fn new(path: String) -> Self {
        Self { path, nodes: Vec::new(), edges: Vec::new() }
    }

    pub(crate) fn sort(&mut self) {
        self.nodes.sort_unstable();
        self.edges.sort_unstable();
        // The walk may have seen a name twice: it was forgotten and added again meanwhile.
        self.nodes.dedup_by(|next, node| next.name == node.name);
        self.edges.dedup();
    }

    /// Returns the part of the graph near a name: what it needs, directly or through others, and what
    /// needs it within `steps` edges. Of the users of one name at most `most` are taken; the nodes say
    /// how many more there are. See [`Near`].
    #[must_use]
    pub fn near(&self, name: &str, (steps, most): (usize, usize)) -> Self {
        let edges = self.edges.iter().map(|edge| (&*edge.user, &*edge.input));
        let Near { names, more_users } = Near::of(edges, name, (steps, most));
        let nodes = self.nodes.iter().filter(|node| names.contains(&*node.name));
        let nodes = nodes.map(|node| {
            let more_users = more_users.get(&*node.name).copied().unwrap_or(0);
            GraphNode { more_users, ..node.clone() }
        });
        let edges = self
            .edges
            .iter()
            .filter(|edge| names.contains(&*edge.user) && names.contains(&*edge.input));
        Self { path: self.path.clone(), nodes: nodes.collect(), edges: edges.cloned().collect() }
    }

    /// Returns [`near`](Self::near) with all users of each name.
    #[must_use]
    pub fn around(&self, name: &str, steps: usize) -> Self {
        self.near(name, (steps, usize::MAX))
    }

    /// Returns the graph in the DOT language. An arrow leads from a worker to its input. It is
    /// dashed for an optional input, and dotted for a live one.
    #[expect(clippy::missing_panics_doc, reason = "writing to a string cannot fail")]
    pub fn to_dot(&self) -> String {
        let mut dot = String::new();
        self.write_dot(&mut dot).expect("a string takes everything");
        dot
    }

    fn write_dot(&self, dot: &mut String) -> fmt::Result {
        writeln!(dot, "digraph {} {{", quoted(&self.path))?;
        writeln!(dot, "  node [shape=box style=filled fillcolor=white]")?;
        for node in &self.nodes {
            let label = format!("{}\\n{}", node.name, node.state);
            let color = color(node.state);
            writeln!(dot, "  {} [label=\"{label}\" fillcolor={color}]", quoted(&node.name))?;
        }
        for edge in &self.edges {
            let style = match edge.need {
                "required" => "solid",
                "optional" => "dashed",
                _ => "dotted",
            };
            let (user, input) = (quoted(&edge.user), quoted(&edge.input));
            writeln!(dot, "  {user} -> {input} [style={style}]")?;
        }
        writeln!(dot, "}}")
    }
}

fn quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
}

fn color(state: WorkerState) -> &'static str {
    match state {
        WorkerState::Running | WorkerState::Done => "palegreen",
        WorkerState::BackingOff | WorkerState::Spent | WorkerState::Stuck => "salmon",
        WorkerState::Absent | WorkerState::Parked | WorkerState::Paused | WorkerState::Missing => {
            "lightgrey"
        }
        _ => "khaki",
    }
}
