//! Commands that look or work once, and end.

use crate::bare;
use crate::files::Files;
use crate::process::{MIB, Took, agent, run};
use crate::rounds::ROUNDS;
use crate::table::{Bound, Table};

/// How much memory an apply of 10,000 files may take at most.
const APPLY_MEMORY: f64 = 60.0 * MIB;

/// How many times as long as the reading of the templates a plan of rendered files may take.
const RENDERED: f64 = 4.0;

/// How long a check of 100,000 resources may take, in seconds.
const CHECK: f64 = 1.2;

pub(crate) fn measure(table: &Table, count: usize) {
    check(table, count);
    fresh(table, count);
    as_declared(table, count);
}

/// Measures the check of a manifest; what is compared is that its YAML is read.
pub(crate) fn check(table: &Table, count: usize) {
    let name = format!("check of {count} files");
    if table.wants(&name) {
        let files = Files::declare(count);
        let bound = if count == 100_000 { Bound::Time(CHECK) } else { Bound::None };
        table.once(&name, bound, None, &by_turns(("read", &files), ("check", &files), || {}));
    }
}

fn fresh(table: &Table, count: usize) {
    let name = format!("plan of {count} files that are not there");
    if table.wants(&name) {
        let files = Files::declare(count);
        let rounds = by_turns(("miss", &files), ("plan", &files), || {});
        table.once(&name, Bound::None, None, &rounds);
    }
    for (name, command) in
        [("plan", &["plan", "site"][..]), ("saved plan", &["plan", "site", "-o", "plan"])]
    {
        let name = format!("{name} of {count} rendered files that are not there");
        if table.wants(&name) {
            let files = Files::declare_rendered(count);
            let turn = |_| {
                let took = run(bare::command("templates", files.root(), files.count()));
                (took, run(agent(files.root(), command)))
            };
            // The first turn is to warm up.
            let rounds: Vec<_> = (0..=ROUNDS).map(turn).skip(1).collect();
            table.once(&name, Bound::Ratio(RENDERED), None, &rounds);
        }
    }
    let name = format!("apply of {count} files that are not there");
    if table.wants(&name) {
        let (bare, files) = (Files::make(count), Files::make(count));
        let remove = || {
            bare.remove();
            files.remove();
        };
        let rounds = by_turns(("write", &bare), ("apply", &files), remove);
        table.once(&name, Bound::None, apply_memory(count), &rounds);
    }
}

fn as_declared(table: &Table, count: usize) {
    for command in ["plan", "apply"] {
        let name = format!("{command} of {count} files as declared");
        if table.wants(&name) {
            let files = Files::make(count);
            let memory = if command == "apply" { apply_memory(count) } else { None };
            let rounds = by_turns(("look", &files), (command, &files), || {});
            table.once(&name, Bound::Ratio(3.0), memory, &rounds);
        }
    }
}

fn apply_memory(count: usize) -> Option<f64> {
    (count == 10_000).then_some(APPLY_MEMORY)
}

/// Runs a bare program and a command of the agent by turns; before each turn something is prepared.
fn by_turns(
    (work, bare): (&str, &Files),
    (command, files): (&str, &Files),
    prepare: impl Fn(),
) -> Vec<(Took, Took)> {
    let turn = |_| {
        prepare();
        let took = run(bare::command(work, bare.root(), bare.count()));
        (took, run(agent(files.root(), &[command, "site"])))
    };
    // The first turn is to warm up.
    (0..=ROUNDS).map(turn).skip(1).collect()
}
