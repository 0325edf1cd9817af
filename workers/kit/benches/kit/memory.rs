//! Memory of idle workers, each kind in a process of its own.

use crate::owner::{self, CatacombOwner, GroupOwner, Owner, RunnerOwner, runtime};
use crate::resident::{resident, spawn};
use crate::table::Table;

const COUNT: usize = 100_000;

pub(crate) fn measure(table: &Table) {
    for kind in ["catacomb", "runner"] {
        let name = format!("memory of an idle worker among {COUNT}, {kind}");
        let bytes = |bytes: f64| format!("{bytes:.0} B");
        table.figures(&name, bytes, || spawn("engine", COUNT), || spawn(kind, COUNT));
    }
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
