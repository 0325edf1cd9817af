//! Graphs in the DOT language.

use std::io::{self, Write};

use crankcase_resources::resource_name;
use crankcase_status::wire::{Graph, GraphNode, Graphs, WorkerState};

use super::one_line;
use crate::site_graph::{SiteEdge, SiteGraph, SiteNode};

/// Writes graphs as one, each engine in a frame of its own: an arrow leads from a worker to its
/// input, dashed for an optional and dotted for a live one.
pub(crate) fn dot(graphs: &Graphs, out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, "digraph agent {{")?;
    writeln!(out, "  node [shape=box style=filled fillcolor=white]")?;
    for (index, graph) in graphs.graphs.iter().enumerate() {
        engine(index, graph, out)?;
    }
    writeln!(out, "}}")
}

/// Writes the graph of a site: an arrow leads from a resource to what it uses, dashed if it is
/// notified as well. An automatic one is grey and has its reason as its tooltip; one that is left out
/// is red and orders nothing.
pub(crate) fn site_dot(graph: &SiteGraph, out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, "digraph site {{")?;
    writeln!(out, "  node [shape=box style=filled fillcolor=white]")?;
    for SiteNode { name, kind, more_users } in &graph.resources {
        let label = quoted(&format!("{name}\n{kind}{}", more(*more_users)));
        writeln!(out, "  {} [label={label}]", quoted(name))?;
    }
    for edge in &graph.edges {
        site_edge(edge, "color=grey", out)?;
    }
    for edge in &graph.left_out {
        site_edge(edge, "color=red constraint=false label=\"left out\"", out)?;
    }
    writeln!(out, "}}")
}

fn site_edge(edge: &SiteEdge, automatic: &str, out: &mut dyn Write) -> io::Result<()> {
    let SiteEdge { user, input, notifies, because } = edge;
    let style = if *notifies { "dashed" } else { "solid" };
    write!(out, "  {} -> {} [style={style}", quoted(user), quoted(input))?;
    if let Some(because) = because {
        write!(out, " {automatic} tooltip={}", quoted(because))?;
    }
    writeln!(out, "]")
}

fn engine(index: usize, graph: &Graph, out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, "  subgraph cluster_{index} {{")?;
    writeln!(out, "    label={}", quoted(&graph.path))?;
    for GraphNode { name, path, state, more_users, .. } in &graph.nodes {
        let (name, words) = (resource_name(name), state.to_string().replace('_', " "));
        let label = quoted(&format!("{name}\n{words}{}", more(*more_users)));
        writeln!(out, "    {} [label={label} fillcolor={}]", quoted(path), color(state))?;
    }
    for edge in &graph.edges {
        let style = match &*edge.need {
            "required" => "solid",
            "optional" => "dashed",
            _ => "dotted",
        };
        let ends = [&edge.user, &edge.input].map(|name| quoted(&below(&graph.path, name)));
        writeln!(out, "    {} -> {} [style={style}]", ends[0], ends[1])?;
    }
    writeln!(out, "  }}")
}

/// Returns how many users of a node are not in the graph.
fn more(users: usize) -> String {
    match users {
        0 => String::new(),
        1 => "\n+1 user".to_owned(),
        users => format!("\n+{users} users"),
    }
}

fn below(path: &str, name: &str) -> String {
    format!("{}/{name}", path.trim_end_matches('/'))
}

fn quoted(text: &str) -> String {
    let text = text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
    format!("\"{}\"", one_line(&text))
}

fn color(state: &WorkerState) -> &'static str {
    match state {
        WorkerState::Running | WorkerState::Done => "palegreen",
        WorkerState::BackingOff | WorkerState::Spent | WorkerState::Stuck => "salmon",
        WorkerState::Absent | WorkerState::Parked | WorkerState::Missing => "lightgrey",
        _ => "khaki",
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn no_name_can_break_out_of_the_graph() -> Result<(), Box<dyn std::error::Error>> {
        let graphs = serde_json::json!({"graphs": [{
            "path": "/x",
            "nodes": [{"name": "a\"]\n", "path": "/x/a\"]\\", "state": "backing_off"}],
            "edges": [{"user": "a", "input": "b", "need": "live", "output": "u8"}],
        }]});

        let mut text = Vec::new();
        super::dot(&serde_json::from_value(graphs)?, &mut text)?;

        let text = String::from_utf8(text)?;
        let expected = r#""/x/a\"]\\" [label="a\"]\n\nbacking off" fillcolor=salmon]"#;
        assert!(text.contains(expected), "{text}");
        assert!(text.contains(r#""/x/a" -> "/x/b" [style=dotted]"#), "{text}");
        Ok(())
    }
}
