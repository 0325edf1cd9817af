//! The engine's speed and memory, as ratios to bare tokio tasks in the same run.
//!
//! `cargo bench -p crankcase-engine` runs all measures; a word after `--` runs those whose names
//! contain it. The floor is a `TaskTracker` whose tasks wait on one cancellation token. Floor and
//! engine alternate for five rounds, each in a task of a runtime of the same kind, after a run to
//! warm up; medians are compared.

#![expect(clippy::print_stdout, reason = "a benchmark prints its figures")]
#![expect(clippy::unwrap_used, reason = "a benchmark that fails may panic")]

mod allocator;
mod bounce;
mod crash;
mod floor;
mod join_map;
mod memory;
mod nested;
mod park;
mod pause;
mod resident;
mod rounds;
mod runtime;
mod start;
mod table;
mod turns;
mod worker;

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    if let [mode, kind, count] = &*args
        && mode == "--memory-of"
    {
        return memory::child(kind, count.parse().unwrap());
    }
    allocator::keep_memory();
    let wanted = args.into_iter().find(|arg| !arg.starts_with('-')).unwrap_or_default();
    let table = table::Table::new(wanted);
    table.head();
    start::measure(&table);
    nested::measure(&table);
    memory::measure(&table);
    bounce::measure(&table);
    crash::measure(&table);
    park::measure(&table);
    pause::measure(&table);
}
