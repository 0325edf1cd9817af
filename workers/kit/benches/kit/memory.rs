//! Memory of idle workers, each kind in a process of its own.

use crate::owner::{self, CatacombOwner, GroupOwner, Owner, RunnerOwner, runtime};
use crate::table::Table;

const COUNT: usize = 100_000;

pub(crate) fn measure(table: &Table) {
    for kind in ["catacomb", "runner"] {
        let name = format!("memory of an idle worker among {COUNT}, {kind}");
        let bytes = |bytes: f64| format!("{bytes:.0} B");
        table.figures(&name, bytes, || spawn("engine"), || spawn(kind));
    }
}

/// Measures in a child process; returns bytes per worker.
fn spawn(kind: &str) -> f64 {
    let program = std::env::current_exe().unwrap();
    let args = ["--memory-of", kind, &COUNT.to_string()];
    let output = std::process::Command::new(program).args(args).output().unwrap();
    String::from_utf8(output.stdout).unwrap().trim().parse().unwrap()
}

pub(crate) fn child(kind: &str, count: usize) {
    let bytes = match kind {
        "catacomb" => grown::<CatacombOwner>(count),
        "runner" => grown::<RunnerOwner>(count),
        _ => grown::<GroupOwner>(count),
    };
    println!("{}", bytes / count as f64);
}

/// Returns by how much this process grows with its workers.
fn grown<O: Owner>(count: usize) -> f64 {
    runtime().block_on(async {
        let warm = O::start(owner::names(10)).await;
        let before = resident();
        // The names are given away: they are part of what is measured.
        let owner = O::start(owner::names(count)).await;
        let grown = resident() - before;
        drop((owner, warm));
        grown
    })
}

/// Returns the resident memory of this process in bytes.
fn resident() -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
    let kib: f64 = line.split_whitespace().nth(1).unwrap().parse().unwrap();
    kib * 1024.0
}
