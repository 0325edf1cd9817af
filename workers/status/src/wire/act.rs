//! What people do to a worker, and what that does to others.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use super::{GraphNode, Graphs, WorkerState};

/// What can be done to a worker.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Act {
    /// Stop it and start it again.
    Bounce,
    /// Stop it and keep it stopped.
    Park,
    /// Let it start again after a park.
    Unpark,
}

impl Act {
    /// Returns its word, such as `bounce`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Bounce => "bounce",
            Self::Park => "park",
            Self::Unpark => "unpark",
        }
    }

    /// Reads its word.
    pub(crate) fn read(word: &str) -> Option<Self> {
        [Self::Bounce, Self::Park, Self::Unpark].into_iter().find(|act| act.as_str() == word)
    }
}

impl fmt::Display for Act {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
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
