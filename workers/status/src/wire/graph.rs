//! The graphs of engines, and what an act on one worker does to others.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::act::Act;
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
    /// Who uses whom.
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
    /// What its worker is doing.
    pub state: WorkerState,
    /// Whether it is degraded.
    #[serde(default, skip_serializing_if = "is_false")]
    pub is_degraded: bool,
    /// How many names use it and are not in the graph, because the graph is only a part.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub more_users: usize,
}

/// One declared input in a graph.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct GraphEdge {
    /// Who declares it.
    pub user: String,
    /// The name that it refers to.
    pub input: String,
    /// `required`, `optional`, `live` or `live required`.
    pub need: String,
    /// The type that is asked for.
    pub output: String,
}

impl Graphs {
    /// Returns the workers that an act on the worker at a path would stop or bounce besides: those that are up and use
    /// it, or use one that does. A live input bounces nobody. The graphs have to hold all that needs the worker.
    pub fn bounced(&self, act: Act, path: &str) -> Vec<&GraphNode> {
        let Some(graph) = self.graphs.iter().find(|it| it.nodes.iter().any(|it| it.path == path))
        else {
            return Vec::new();
        };
        let mut users: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        for edge in graph.edges.iter().filter(|edge| !edge.need.starts_with("live")) {
            users.entry(&edge.input).or_default().push(&edge.user);
        }
        let name = path.rsplit('/').next().unwrap_or(path);
        let (mut reached, mut left) = (BTreeSet::new(), vec![name]);
        while let Some(input) = left.pop() {
            for user in users.get(input).into_iter().flatten().copied() {
                if user != name && reached.insert(user) {
                    left.push(user);
                }
            }
        }
        // What waits for a worker that is unparked starts, and is not bounced.
        let is_up = |state: &WorkerState| match state {
            WorkerState::Running | WorkerState::HeldBack => true,
            WorkerState::Starting => act != Act::Unpark,
            _ => false,
        };
        let nodes = graph.nodes.iter().filter(|node| reached.contains(&*node.name));
        nodes.filter(|node| is_up(&node.state)).collect()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{Act, Graphs};

    #[test]
    fn what_is_up_and_not_live_is_bounced_with_what_it_uses() -> Result<(), serde_json::Error> {
        let node = |(name, state): (&str, &str)| json!({"name": name, "path": format!("/agent/in/{name}"), "state": state});
        let nodes = [
            ("a", "running"),
            ("b", "running"),
            ("c", "held_back"),
            ("d", "running"),
            ("e", "waiting"),
            ("f", "starting"),
            ("g", "running"),
        ];
        let edge = |(user, input, need): (&str, &str, &str)| json!({"user": user, "input": input, "need": need, "output": "State"});
        let edges = [
            ("b", "a", "required"),
            ("c", "b", "optional"),
            ("d", "a", "live"),
            ("d", "c", "live required"),
            ("e", "a", "required"),
            ("f", "e", "required"),
            ("a", "g", "required"),
            ("a", "a", "optional"),
        ];
        let graph =
            json!({"path": "/agent/in", "nodes": nodes.map(node), "edges": edges.map(edge)});
        let graphs: Graphs = serde_json::from_value(json!({ "graphs": [graph] }))?;
        let bounced = |act, path| {
            let nodes = graphs.bounced(act, path).into_iter();
            nodes.map(|node| node.name.as_str()).collect::<Vec<_>>()
        };

        assert_eq!(bounced(Act::Park, "/agent/in/a"), ["b", "c", "f"]);
        assert_eq!(bounced(Act::Unpark, "/agent/in/a"), ["b", "c"]);
        assert!(bounced(Act::Bounce, "/agent/in/d").is_empty());
        assert!(bounced(Act::Bounce, "/agent/other").is_empty());
        Ok(())
    }
}
