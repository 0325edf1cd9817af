//! Many small engines in one, against as many workers in one engine.

use std::time::Duration;

use crankcase_engine::{Change, Engine, Name, Nested};
use tokio::time::Instant;

use crate::start::group;
use crate::table::Table;
use crate::worker::{Count, engine, idle, names};

const ENGINES: usize = 500;
const WORKERS: usize = 20;

pub(crate) fn measure(table: &Table) {
    let name = format!("start {ENGINES} nested engines of {WORKERS}, against as many in one");
    table.compare(&name, 1.5, || group(ENGINES * WORKERS), tenants);
}

/// Installs all nested engines as one group, and waits until all of their workers run.
async fn tenants() -> Duration {
    let (engine, _events) = engine();
    let started = Count::new(ENGINES * WORKERS);
    let (tenants, inner) = (names(ENGINES), names(WORKERS));
    let began = Instant::now();
    engine.apply(nested(&tenants, &inner, &started)).await.unwrap();
    started.reached().await;
    let taken = began.elapsed();
    engine.stop().await.unwrap();
    taken
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
