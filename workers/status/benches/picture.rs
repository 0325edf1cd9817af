//! What a picture costs, against writing the same graph or report as JSON, in one run.
//!
//! usage: cargo bench -p crankcase-status

#![expect(clippy::print_stdout, reason = "a benchmark prints its figures")]

use std::error::Error;
use std::hint::black_box;
use std::time::Duration;

use crankcase_status::Boot;
use crankcase_status::picture::Picture;
use crankcase_status::wire::{EngineReport, Graphs};
use serde_json::{Value, json};
use tokio::time::Instant;

type BenchResult<T = ()> = Result<T, Box<dyn Error>>;

const ROUNDS: usize = 15;

fn main() -> BenchResult {
    println!("| work | here | against | ratio, of at most |");
    println!("| --- | --- | --- | --- |");
    let mixed = graphs(2_000, mixed(2_000))?;
    let json = time(|| serde_json::to_string(&mixed).map(|json| json.len()).unwrap_or_default());
    let drawn = draw(&mixed);
    row("draw 2,000 nodes and 3,600 edges, all of them", drawn, "the same as JSON", json, 10.0);
    let readable = time(|| {
        Picture::of(&mixed, str::to_owned)
            .readable(&std::collections::BTreeSet::new())
            .to_svg()
            .len()
    });
    row("the same, made readable", readable, "the same as JSON", json, 10.0);
    let large = draw(&graphs(20_000, self::mixed(20_000))?);
    row("draw ten times as many", large, "2,000 nodes", drawn, 20.0);
    let chain = draw(&graphs(2_000, (1..2_000).map(|user| (user, user - 1)).collect())?);
    row("draw a chain of 2,000", chain, "the mixed graph", drawn, 1.0);
    let hub = draw(&graphs(2_000, (1..2_000).map(|user| (user, 0)).collect())?);
    row("draw a hub of 2,000", hub, "the mixed graph", drawn, 1.0);
    boot()
}

/// Prints a row.
fn row(work: &str, here: Duration, against: &str, other: Duration, most: f64) {
    let ratio = here.as_secs_f64() / other.as_secs_f64();
    println!("| {work} | {here:.1?} | {against}: {other:.1?} | {ratio:.2}, of {most} |");
}

/// Returns the median time of a work.
fn time<T>(work: impl Fn() -> T) -> Duration {
    let mut times: Vec<_> = (0..ROUNDS)
        .map(|_| {
            let began = Instant::now();
            black_box(work());
            began.elapsed()
        })
        .collect();
    times.sort();
    times[ROUNDS / 2]
}

fn draw(graphs: &Graphs) -> Duration {
    time(|| Picture::of(graphs, str::to_owned).to_svg().len())
}

/// Returns the edges of modules with shared roots: each node has up to three inputs, most of them of its own module.
fn mixed(count: usize) -> Vec<(usize, usize)> {
    let mut edges = Vec::new();
    let mut random = 7_usize;
    let mut below = |bound: usize| {
        random =
            random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (random >> 33) % bound
    };
    for user in 10..count {
        let module = user - user % 20;
        edges.push((user, below(10)));
        if user > module {
            edges.push((user, module + below(user - module)));
        }
    }
    edges.truncate(count * 9 / 5);
    edges
}

fn graphs(count: usize, edges: Vec<(usize, usize)>) -> BenchResult<Graphs> {
    let name = |at: usize| format!("worker-{at:05}");
    let nodes: Vec<Value> = (0..count)
        .map(|at| json!({"name": name(at), "path": format!("/agent/resources/{}", name(at)), "state": "running"}))
        .collect();
    let edges: Vec<Value> = edges
        .into_iter()
        .map(|(user, input)| {
            json!({"user": name(user), "input": name(input), "need": "live required", "output": "State"})
        })
        .collect();
    let graph = json!({"path": "/agent/resources", "nodes": nodes, "edges": edges});
    Ok(serde_json::from_value(json!({"graphs": [graph]}))?)
}

fn boot() -> BenchResult {
    let start = |at: usize| {
        let when = |micros: usize| format!("2026-01-01T00:00:{:09.6}Z", micros as f64 / 1e6);
        let waited =
            if at == 0 { json!("call") } else { json!({"input": format!("worker-{:05}", at - 1)}) };
        let start = json!({"generation": 1, "ready": when(1000 * at), "waited_for": waited,
                           "begun": when(1000 * at + 5), "up": when(1000 * at + 1000)});
        let worker = json!({"path": format!("/agent/worker-{at:05}"), "state": "running", "generation": 1,
                            "starts": 1, "failures": 0, "is_essential": true, "installed": when(0),
                            "last_start": start});
        (format!("worker-{at:05}"), worker)
    };
    let workers: serde_json::Map<_, _> = (0..2_000).map(start).collect();
    let report = json!({"path": "/agent", "state": "running", "is_healthy": true, "at": "", "workers": workers});
    let report = report.to_string();
    let read = || serde_json::from_str::<EngineReport>(&report);
    let printed = time(|| read().map(|report| serde_json::to_string_pretty(&report)));
    let drawn = time(|| read().map(|report| Boot::of(&report).to_svg(str::to_owned)));
    row("read a report of 2,000 workers, draw the boot", drawn, "read it, print it", printed, 3.0);
    Ok(())
}
