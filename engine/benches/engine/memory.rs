//! Memory of idle workers, each kind in a process of its own.

use crankcase_engine::Change;

use crate::floor::Floor;
use crate::join_map::{Named, texts};
use crate::nested::{ENGINES, WORKERS, tenants};
use crate::resident::{resident, spawn};
use crate::rounds::median;
use crate::runtime::in_task;
use crate::table::Table;
use crate::worker::{Count, engine, idle, names};

const COUNT: usize = 100_000;

pub(crate) fn measure(table: &Table) {
    compare(table, "memory of an idle worker among 100000", "floor");
    compare(table, "memory of an idle worker among 100000, against a JoinMap", "join-map");
    let name = format!("memory of a nested engine, beside that of its {WORKERS} workers");
    if table.wants(&name) {
        let rounds = (0..5).map(|_| {
            let workers = spawn("engine", ENGINES * WORKERS) * WORKERS as f64;
            spawn("nested", ENGINES) - workers
        });
        let bytes = median(rounds);
        table.figure(&name, &format!("{bytes:.0} B"), "8192 B", bytes <= 8192.0);
    }
}

fn compare(table: &Table, name: &str, with: &str) {
    if !table.wants(name) {
        return;
    }
    let rounds: Vec<(f64, f64)> =
        (0..5).map(|_| (spawn(with, COUNT), spawn("engine", COUNT))).collect();
    let other = median(rounds.iter().map(|round| round.0));
    let engine = median(rounds.iter().map(|round| round.1));
    let figure = format!("{engine:.0} B, {with} {other:.0} B, ratio {:.2}", engine / other);
    table.figure(name, &figure, "3.5", engine / other <= 3.5);
}

pub(crate) fn child(kind: &str, count: usize) {
    let bytes = match kind {
        "floor" => in_task(floor(count)),
        "join-map" => in_task(named(count)),
        "nested" => in_task(nested(count)),
        _ => in_task(workers(count)),
    };
    println!("{}", bytes / count as f64);
}

async fn floor(count: usize) -> f64 {
    drop(Floor::start(10).await);
    let before = resident();
    let _floor = Floor::start(count).await;
    resident() - before
}

async fn named(count: usize) -> f64 {
    drop(Named::start(texts(10)).await);
    let before = resident();
    let _named = Named::start(texts(count)).await;
    resident() - before
}

async fn nested(count: usize) -> f64 {
    let (engine, _events) = engine();
    let warm = crankcase_engine::Name::<crankcase_engine::Engine>::new("warm");
    let started = Count::new(1);
    engine.install(crankcase_engine::Name::<usize>::new("one"), idle(&started)).await.unwrap();
    let empty = crankcase_engine::Nested::new(Change::new);
    engine.install_nested(warm, empty).await.unwrap();
    engine.settled().await.unwrap();
    let before = resident();
    tenants(&engine, count).await;
    engine.settled().await.unwrap();
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
