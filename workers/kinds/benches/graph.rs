//! Graphs of 100,000 nodes: their layers, their way over the wire, and their site.
//!
//! `cargo bench -p crankcase-kinds --bench graph` runs it. What is compared is that the same nodes are
//! written and read by `serde_json` alone, once warm; medians of five rounds.

#![expect(clippy::disallowed_types, reason = "a benchmark measures real time")]
#![expect(clippy::print_stdout, reason = "a benchmark prints its figures")]
#![expect(clippy::unwrap_used, reason = "a benchmark that fails may panic")]

use std::path::Path;
use std::time::{Duration, Instant};

use crankcase_kinds::builtin;
use crankcase_resources::front::Surroundings;
use crankcase_resources::{Graph, Node};
use serde_json::Value;

const NODES: usize = 100_000;

/// How many nodes require the same one.
const GROUP: usize = 100;

const ROUNDS: usize = 5;

fn main() {
    let graph = graph();
    let (kinds, here) = (builtin(), Surroundings::new(Path::new("/")));
    let text = graph.to_wire(&kinds, &here).unwrap();
    let (read, _) = median(|| serde_json::from_str::<Value>(&text).unwrap());
    let (written, _) = median(|| {
        let nodes = graph.nodes().map(|node| (node.name(), node.kind(), node.config()));
        serde_json::to_string(&nodes.collect::<Vec<_>>()).unwrap()
    });
    println!("{NODES} nodes, {} MiB on the wire\n", text.len() >> 20);
    println!("| measure | bare | graph | ratio |\n| --- | --- | --- | --- |");
    row("layers", written, median(|| graph.layers().unwrap().len()).0);
    row("to the wire", written, median(|| graph.to_wire(&kinds, &here).unwrap()).0);
    row("from the wire", read, median(|| Graph::from_wire(&text, &kinds, &here).unwrap()).0);
    row("site", read, median(|| graph.site(&kinds, &here).unwrap()).0);
}

fn row(name: &str, bare: Duration, measured: Duration) {
    let ratio = measured.as_secs_f64() / bare.as_secs_f64();
    println!("| {name} | {bare:.0?} | {measured:.0?} | {ratio:.2} |");
}

/// Returns folders with files in them, merged by name.
fn graph() -> Graph {
    let nodes = (0..NODES).map(|number| {
        let folder = format!("/srv/{}/", number / GROUP);
        let node = Node::new(&format!("n{number}"), "file");
        if number % GROUP == 0 {
            return node.with("path", folder);
        }
        let node = node.with("path", format!("{folder}{number}")).with("content", "a line\n");
        node.after(&format!("n{}", number / GROUP * GROUP))
    });
    let mut graphs = nodes.map(Graph::from);
    let first = graphs.next().unwrap();
    graphs.fold(first, |graph, node| graph.merge(&node).unwrap())
}

/// Returns the median of the times that something takes, and its last result.
fn median<T>(mut work: impl FnMut() -> T) -> (Duration, T) {
    let mut last = work();
    let mut times = Vec::new();
    for _ in 0..ROUNDS {
        let began = Instant::now();
        last = work();
        times.push(began.elapsed());
    }
    times.sort_unstable();
    (times[ROUNDS / 2], last)
}
