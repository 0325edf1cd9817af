//! What a child of a catacomb or a runner costs, as a ratio to a bare worker of an engine in the same
//! run.
//!
//! `cargo bench -p crankcase-workers` runs all measures; a word after `--` runs those whose names
//! contain it. Engine and owner alternate for five rounds on the same runtime; medians are compared.

#![expect(clippy::print_stdout, reason = "a benchmark prints its figures")]
#![expect(clippy::unwrap_used, reason = "a benchmark that fails may panic")]

#[path = "../../../../engine/benches/engine/allocator.rs"]
mod allocator;
mod memory;
mod owner;
#[path = "../../../../engine/benches/engine/resident.rs"]
mod resident;
#[path = "../../../../engine/benches/engine/rounds.rs"]
mod rounds;
mod table;
#[path = "../../../../engine/benches/engine/turns.rs"]
mod turns;

use std::time::Duration;

use owner::{CatacombOwner, EngineOwner, GroupOwner, Owner, RunnerOwner, runtime};
use table::Table;
use tokio::time::Instant;

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    if let [mode, kind, count] = &*args
        && mode == "--memory-of"
    {
        return memory::child(kind, count.parse().unwrap());
    }
    allocator::keep_memory();
    let wanted = args.into_iter().find(|arg| !arg.starts_with('-')).unwrap_or_default();
    let table = Table::new(wanted);
    table.head();
    for count in [1_000, 10_000, 100_000] {
        let name = |what: &str| format!("start and stop {count} {what}");
        table.compare(
            &name("one by one, catacomb"),
            || life::<EngineOwner>(count),
            || life::<CatacombOwner>(count),
        );
        table.compare(
            &name("one by one, runner"),
            || life::<EngineOwner>(count),
            || life::<RunnerOwner>(count),
        );
        table.compare(
            &name("against a group, catacomb"),
            || life::<GroupOwner>(count),
            || life::<CatacombOwner>(count),
        );
        table.compare(
            &name("against a group, runner"),
            || life::<GroupOwner>(count),
            || life::<RunnerOwner>(count),
        );
    }
    memory::measure(&table);
}

/// Returns the time of starting and stopping idle workers.
fn life<O: Owner>(count: usize) -> Duration {
    runtime().block_on(async {
        let names = owner::names(count);
        let began = Instant::now();
        let owner = O::start(names).await;
        owner.stop().await;
        began.elapsed()
    })
}
