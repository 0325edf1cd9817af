//! What a change of a worker would bounce.

use std::collections::{BTreeMap, BTreeSet};

use crankcase_resources::resource_name;
use crankcase_status::wire::{Graphs, WorkerState};

use super::control::Act;

/// Returns the workers that are up and would stop or be bounced with a worker: those that use it and are not live,
/// and those that use them.
pub(super) fn bounced(graphs: &Graphs, act: Act, path: &str) -> Vec<String> {
    let Some(graph) = graphs.graphs.iter().find(|it| it.nodes.iter().any(|it| it.path == path))
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
    nodes.filter(|node| is_up(&node.state)).map(|node| resource_name(&node.name)).collect()
}

#[cfg(test)]
mod tests {
    use crankcase_status::wire::Graphs;
    use serde_json::json;

    use super::bounced;
    use crate::command::control::Act;

    #[test]
    fn what_is_up_and_not_live_is_bounced_with_what_it_uses() -> Result<(), serde_json::Error> {
        let node = |(name, state): (&str, &str)| json!({"name": name, "path": format!("/agent/in/{name}"), "state": state});
        let nodes = [
            ("a", "running"),
            ("b", "running"),
            ("c..1", "held_back"),
            ("d", "running"),
            ("e", "waiting"),
            ("f", "starting"),
            ("g", "running"),
        ];
        let edge = |(user, input, need): (&str, &str, &str)| json!({"user": user, "input": input, "need": need, "output": "State"});
        let edges = [
            ("b", "a", "required"),
            ("c..1", "b", "optional"),
            ("d", "a", "live"),
            ("d", "c..1", "live required"),
            ("e", "a", "required"),
            ("f", "e", "required"),
            ("a", "g", "required"),
            ("a", "a", "optional"),
        ];
        let graph =
            json!({"path": "/agent/in", "nodes": nodes.map(node), "edges": edges.map(edge)});
        let graphs: Graphs = serde_json::from_value(json!({ "graphs": [graph] }))?;

        assert_eq!(bounced(&graphs, Act::Park, "/agent/in/a"), ["b", "c[\"1\"]", "f"]);
        assert_eq!(bounced(&graphs, Act::Unpark, "/agent/in/a"), ["b", "c[\"1\"]"]);
        assert!(bounced(&graphs, Act::Bounce, "/agent/in/d").is_empty());
        assert!(bounced(&graphs, Act::Bounce, "/agent/other").is_empty());
        Ok(())
    }
}
