//! The engine beside the crates that a user would pick instead, in the same run.
//!
//! `cargo run --release --manifest-path engine/benches/peers/Cargo.toml` runs all rows; a word after
//! `--` runs those whose names contain it. A row measures a peer and the engine by turns, each in a
//! task of a runtime of the same kind, after a run to warm up, as the engine's own benchmark does.

#![expect(clippy::print_stdout, reason = "a benchmark prints its figures")]
#![expect(dead_code, reason = "the engine's own benchmark uses the rest of its files")]
#![expect(clippy::unwrap_used, reason = "a benchmark that fails may panic")]

#[path = "../../engine/allocator.rs"]
mod allocator;
mod engine;
#[path = "../../engine/floor.rs"]
mod floor;
#[path = "../../engine/join_map.rs"]
mod join_map;
mod ractors;
#[path = "../../engine/rounds.rs"]
mod rounds;
#[path = "../../engine/runtime.rs"]
mod runtime;
#[path = "../../engine/start.rs"]
mod start;
mod supervised;
#[path = "../../engine/table.rs"]
mod table;
#[path = "../../engine/turns.rs"]
mod turns;
#[path = "../../engine/worker.rs"]
mod worker;

use std::time::Duration;

use rounds::time;
use runtime::warm;
use turns::by_turns;

const COUNT: usize = 10_000;

fn main() {
    allocator::keep_memory();
    let wanted = std::env::args().skip(1).find(|arg| !arg.starts_with('-')).unwrap_or_default();
    println!("| measure | peer | engine | engine to peer (lowest to highest) |");
    println!("| --- | --- | --- | --- |");
    let row = Row { wanted };
    let name = |what: &str, peer: &str| format!("{what}, {peer}");

    let what = format!("start {COUNT} one by one");
    let engine = || start::one_by_one(COUNT);
    row.compare(&name(&what, "task-supervisor"), || supervised::one_by_one(COUNT), engine);
    row.compare(&name(&what, "ractor"), || ractors::one_by_one(COUNT), engine);

    let what = format!("start {COUNT} at once");
    let engine = || start::group(COUNT);
    row.compare(&name(&what, "task-supervisor"), || supervised::at_once(COUNT), engine);
    row.compare(&name(&what, "ractor"), || ractors::at_once(COUNT), engine);

    let what = format!("stop {COUNT}");
    let engine = || start::stop(COUNT);
    row.compare(&name(&what, "task-supervisor"), || supervised::stop(COUNT), engine);
    row.compare(&name(&what, "ractor"), || ractors::stop(COUNT), engine);

    let what = format!("restart of one among {COUNT} by hand");
    let engine = || engine::restart(COUNT);
    row.compare(&name(&what, "task-supervisor"), || supervised::restart(COUNT), engine);

    let what = format!("restart of one among {COUNT} after a failure");
    let engine = || engine::restart_failed(COUNT);
    row.compare(&name(&what, "ractor"), || ractors::restart_failed(COUNT), engine);
}

struct Row {
    wanted: String,
}

impl Row {
    fn compare<P, E>(&self, name: &str, peer: impl Fn() -> P, engine: impl Fn() -> E)
    where
        P: Future<Output = Duration> + Send + 'static,
        E: Future<Output = Duration> + Send + 'static,
    {
        if name.contains(&self.wanted) {
            let rounds = by_turns(|| warm(&peer).as_secs_f64(), || warm(&engine).as_secs_f64());
            println!("| {name} | {} |", rounds.columns(time));
        }
    }
}
