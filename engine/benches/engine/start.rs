//! Install, start and stop of independent workers; install of chains.

use std::time::Duration;

use crankcase_engine::{Change, Name};
use tokio::time::Instant;

use crate::floor;
use crate::join_map;
use crate::table::Table;
use crate::worker::{Count, engine, idle, names, user};

pub(crate) fn measure(table: &Table) {
    for count in [1_000, 10_000, 100_000] {
        let name = format!("start {count} one by one");
        table.compare(&name, 4.0, || floor::start(count), || one_by_one(count));
        let name = format!("start {count} one by one, all asked for at once");
        table.compare(&name, 4.0, || floor::start(count), || asked_at_once(count));
    }
    for count in [1_000, 10_000, 100_000] {
        let name = format!("start {count} as a group");
        table.compare(&name, 3.0, || floor::start(count), || group(count));
    }
    table.compare("stop 100000", 3.0, || floor::stop(100_000), || stop(100_000));
    let name = "start 10000 one by one, against a JoinMap";
    table.compare(name, 4.0, || join_map::start(10_000), || one_by_one(10_000));
    let name = "start 100000 as a group, against a JoinMap";
    table.compare(name, 3.0, || join_map::start(100_000), || group(100_000));
    let name = "stop 100000, against a JoinMap";
    table.compare(name, 3.0, || join_map::stop(100_000), || stop(100_000));
    for count in [1_000, 10_000] {
        let name = format!("install a chain of {count}, users first, against inputs first");
        table.compare(&name, 1.3, || chain(count, false), || chain(count, true));
    }
    table.compare(
        "install a chain of 10000 against ten of 1000",
        1.3,
        || async { chain(1_000, true).await * 10 },
        || chain(10_000, true),
    );
}

/// Each install is awaited before the next is asked for.
pub(crate) async fn one_by_one(count: usize) -> Duration {
    let (engine, _events) = engine();
    let (names, started) = (names(count), Count::new(count));
    let began = Instant::now();
    for name in names {
        engine.install(name, idle(&started)).await.unwrap();
    }
    started.reached().await;
    let taken = began.elapsed();
    engine.stop().await.unwrap();
    taken
}

/// All installs are asked for before the first is awaited.
async fn asked_at_once(count: usize) -> Duration {
    let (engine, _events) = engine();
    let (names, started) = (names(count), Count::new(count));
    let began = Instant::now();
    let install = |name| engine.install(name, idle(&started));
    for installed in names.into_iter().map(install).collect::<Vec<_>>() {
        installed.await.unwrap();
    }
    started.reached().await;
    let taken = began.elapsed();
    engine.stop().await.unwrap();
    taken
}

pub(crate) async fn group(count: usize) -> Duration {
    let (engine, _events) = engine();
    let (names, started) = (names(count), Count::new(count));
    let began = Instant::now();
    let change =
        names.into_iter().fold(Change::new(), |all, name| all.install(name, idle(&started)));
    engine.apply(change).await.unwrap();
    started.reached().await;
    let taken = began.elapsed();
    engine.stop().await.unwrap();
    taken
}

pub(crate) async fn stop(count: usize) -> Duration {
    let (engine, _events) = engine();
    let started = Count::new(count);
    let change =
        names(count).into_iter().fold(Change::new(), |all, name| all.install(name, idle(&started)));
    engine.apply(change).await.unwrap();
    started.reached().await;
    let began = Instant::now();
    engine.stop().await.unwrap();
    began.elapsed()
}

async fn chain(count: usize, users_first: bool) -> Duration {
    let (engine, _events) = engine();
    let (names, started) = (names(count), Count::new(count));
    let inputs = |index: usize| -> Vec<Name<usize>> {
        index.checked_sub(1).map(|before| names[before].clone()).into_iter().collect()
    };
    let mut order: Vec<usize> = (0..count).collect();
    if users_first {
        order.reverse();
    }
    let began = Instant::now();
    for index in order {
        let manifold = user(inputs(index), &started);
        engine.install(names[index].clone(), manifold).await.unwrap();
    }
    started.reached().await;
    let taken = began.elapsed();
    engine.stop().await.unwrap();
    taken
}
