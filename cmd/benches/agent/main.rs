//! The agent as a whole, as ratios to a bare program that does the least in the same run.
//!
//! `cargo bench -p crankcase --bench agent` runs all measures; a word after `--` runs those whose
//! names contain it. The agent is the real binary, and the files are real, in a folder in `TMPDIR`.
//! `CRANKCASE_BENCH_SIZES` says how many files there are, several times over if there are several
//! numbers (default `1000,10000`). Bare program and agent alternate; medians are compared.

#![expect(clippy::print_stdout, reason = "a benchmark prints its figures")]
#![expect(clippy::unwrap_used, reason = "a benchmark that fails may panic")]

mod bare;
mod cfengine;
mod external;
mod facts;
mod files;
mod keeping;
mod once;
mod process;
mod programs;
mod repair;
#[expect(dead_code, reason = "the engine's benchmark uses the rest of it")]
#[path = "../../../engine/benches/engine/rounds.rs"]
mod rounds;
mod running;
mod table;
mod trees;
mod watch;

use std::path::Path;

use crate::table::Table;

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    if let [mode, work, folder, count] = &*args
        && mode == "--bare"
    {
        return bare::run(work, Path::new(folder), count.parse().unwrap());
    }
    let table = Table::new(args.into_iter().find(|arg| !arg.starts_with('-')).unwrap_or_default());
    println!("Files are in {}.", std::env::temp_dir().display());
    for count in sizes() {
        once::measure(&table, count);
    }
    once::check(&table, 100_000);
    for count in sizes() {
        cfengine::measure(&table, count);
    }
    for count in sizes() {
        keeping::measure(&table, count);
        repair::measure(&table, count);
    }
    trees::measure(&table);
    facts::measure(&table);
    programs::measure(&table);
    external::measure(&table);
}

/// Returns how many files there are.
fn sizes() -> Vec<usize> {
    let sizes = std::env::var("CRANKCASE_BENCH_SIZES").unwrap_or_else(|_| "1000,10000".into());
    sizes.split(',').map(|size| size.trim().parse().unwrap()).collect()
}
