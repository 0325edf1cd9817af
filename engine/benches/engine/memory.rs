//! Memory of idle workers, each kind in a process of its own.

use crankcase_engine::Change;

use crate::floor::Floor;
use crate::resident::{resident, spawn};
use crate::rounds::median;
use crate::runtime::in_task;
use crate::table::Table;
use crate::worker::{Count, engine, idle, names};

const COUNT: usize = 100_000;

pub(crate) fn measure(table: &Table) {
    let name = "memory of an idle worker among 100000";
    if !table.wants(name) {
        return;
    }
    let rounds: Vec<(f64, f64)> =
        (0..5).map(|_| (spawn("floor", COUNT), spawn("engine", COUNT))).collect();
    let floor = median(rounds.iter().map(|round| round.0));
    let engine = median(rounds.iter().map(|round| round.1));
    let figure = format!("{engine:.0} B, floor {floor:.0} B, ratio {:.2}", engine / floor);
    table.figure(name, &figure, "3.5", engine / floor <= 3.5);
}

pub(crate) fn child(kind: &str, count: usize) {
    let bytes = if kind == "floor" { in_task(floor(count)) } else { in_task(workers(count)) };
    println!("{}", bytes / count as f64);
}

async fn floor(count: usize) -> f64 {
    drop(Floor::start(10).await);
    let before = resident();
    let _floor = Floor::start(count).await;
    resident() - before
}

async fn workers(count: usize) -> f64 {
    let (engine, _events) = engine();
    let (warm, started) = (Count::new(1), Count::new(count));
    engine.install(crankcase_engine::Name::<usize>::new("warm"), idle(&warm)).await.unwrap();
    warm.reached().await;
    let before = resident();
    // The names and the change are given away: they are part of what is measured.
    let change =
        names(count).into_iter().fold(Change::new(), |all, name| all.install(name, idle(&started)));
    engine.apply(change).await.unwrap();
    started.reached().await;
    engine.settled().await.unwrap();
    resident() - before
}
