//! The graphs of engines.

use serde::{Deserialize, Serialize};

use super::report::{is_false, is_zero};
use super::state::WorkerState;

/// The dependency graphs of engines.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Graphs {
    /// One for each engine, by path.
    pub graphs: Vec<Graph>,
}

/// The dependency graph of one engine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Graph {
    /// The engine's path.
    pub path: String,
    /// The names.
    pub nodes: Vec<GraphNode>,
    /// The inputs of each name.
    pub edges: Vec<GraphEdge>,
}

/// One name in a graph.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct GraphNode {
    /// The name.
    pub name: String,
    /// The worker's path.
    pub path: String,
    /// The state of its worker.
    pub state: WorkerState,
    /// Whether it is degraded.
    #[serde(default, skip_serializing_if = "is_false")]
    pub is_degraded: bool,
    /// The names of other workers of its engine that it says it waits for, or that hold it back.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub waits_for: Vec<String>,
    /// How many names use it and are not in the graph, because the graph is only a part.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub more_users: usize,
}

/// One declared input in a graph.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct GraphEdge {
    /// The name that declares it.
    pub user: String,
    /// The name that it refers to.
    pub input: String,
    /// `required`, `optional`, `live` or `live required`.
    pub need: String,
    /// The type that is asked for.
    pub output: String,
}
