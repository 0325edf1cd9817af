//! Many small engines in one, against as many workers in one engine.

use std::time::Duration;

use crankcase_engine::{Change, Engine, Name, Nested};
use tokio::time::Instant;

use crate::start::{group, stop};
use crate::table::Table;
use crate::worker::{Count, engine, idle, names};

pub(crate) const ENGINES: usize = 500;
pub(crate) const WORKERS: usize = 20;

pub(crate) fn measure(table: &Table) {
    let name = format!("start {ENGINES} nested engines of {WORKERS}, against as many in one");
    table.compare(&name, 1.3, || group(ENGINES * WORKERS), start_tenants);
    let name = format!("stop {ENGINES} nested engines of {WORKERS}, against as many in one");
    table.compare(&name, 1.5, || stop(ENGINES * WORKERS), stop_tenants);
}

async fn start_tenants() -> Duration {
    let (engine, _events) = engine();
    let taken = tenants(&engine, ENGINES).await;
    engine.stop().await.unwrap();
    taken
}

async fn stop_tenants() -> Duration {
    let (engine, _events) = engine();
    tenants(&engine, ENGINES).await;
    let began = Instant::now();
    engine.stop().await.unwrap();
    began.elapsed()
}

/// Installs nested engines as one group, and waits until all of their workers run.
pub(crate) async fn tenants(engine: &Engine, count: usize) -> Duration {
    let started = Count::new(count * WORKERS);
    let (tenants, inner) = (names(count), names(WORKERS));
    let began = Instant::now();
    engine.apply(nested(&tenants, &inner, &started)).await.unwrap();
    started.reached().await;
    began.elapsed()
}

/// Installs nested engines of these names, each with idle workers of the inner names.
pub(crate) fn nested(tenants: &[Name<usize>], inner: &[Name<usize>], started: &Count) -> Change {
    tenants.iter().fold(Change::new(), |all, tenant| {
        let (inner, started) = (inner.to_vec(), started.clone());
        let contents = move || {
            let names = inner.iter().cloned();
            names.fold(Change::new(), |all, name| all.install(name, idle(&started)))
        };
        all.install_nested(tenant.output::<Engine>(), Nested::new(contents))
    })
}
