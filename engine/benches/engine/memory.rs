//! Memory of idle workers, each kind in a process of its own.

use crankcase_engine::Change;

use crate::floor::Floor;
use crate::table::{Table, median};
use crate::worker::{Count, engine, idle, names, runtime};

const COUNT: usize = 100_000;

pub(crate) fn measure(table: &Table) {
    let name = "memory of an idle worker among 100000";
    if !table.wants(name) {
        return;
    }
    let rounds: Vec<(f64, f64)> = (0..5).map(|_| (spawn("floor"), spawn("engine"))).collect();
    let floor = median(rounds.iter().map(|round| round.0));
    let engine = median(rounds.iter().map(|round| round.1));
    let figure = format!("{engine:.0} B, floor {floor:.0} B, ratio {:.2}", engine / floor);
    table.figure(name, &figure, "3.5", engine / floor <= 3.5);
}

/// Measures in a child process; returns bytes per worker.
fn spawn(kind: &str) -> f64 {
    let program = std::env::current_exe().unwrap();
    let args = ["--memory-of", kind, &COUNT.to_string()];
    let output = std::process::Command::new(program).args(args).output().unwrap();
    String::from_utf8(output.stdout).unwrap().trim().parse().unwrap()
}

pub(crate) fn child(kind: &str, count: usize) {
    let bytes = runtime().block_on(async {
        match kind {
            "floor" => {
                drop(Floor::start(10).await);
                let before = resident();
                let _floor = Floor::start(count).await;
                resident() - before
            }
            _ => {
                let (engine, _events) = engine();
                let (warm, started) = (Count::new(1), Count::new(count));
                engine
                    .install(crankcase_engine::Name::<usize>::new("warm"), idle(&warm))
                    .await
                    .unwrap();
                warm.reached().await;
                let before = resident();
                // The names and the change are given away: they are part of what is measured.
                let change = names(count)
                    .into_iter()
                    .fold(Change::new(), |all, name| all.install(name, idle(&started)));
                engine.apply(change).await.unwrap();
                started.reached().await;
                engine.settled().await.unwrap();
                resident() - before
            }
        }
    });
    println!("{}", bytes / count as f64);
}

/// Returns the resident memory of this process in bytes.
pub(crate) fn resident() -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
    let kib: f64 = line.split_whitespace().nth(1).unwrap().parse().unwrap();
    kib * 1024.0
}
