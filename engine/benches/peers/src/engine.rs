//! One worker of an engine that is started again and again among others that are idle.

use std::sync::Arc;
use std::time::Duration;

use crankcase_engine::{Backoff, Change, Engine, Events, Manifold, Name, Policy};
use tokio::sync::Notify;
use tokio::time::Instant;

use crate::worker::{Count, idle, names};

/// How often it is started again.
pub(crate) const RESTARTS: u32 = 20_000;

/// Returns the time from asking for a restart until the next generation runs.
pub(crate) async fn restart(others: usize) -> Duration {
    let (engine, _events) = engine(others).await;
    let (one, started) = (Name::<usize>::new("one"), Count::new(1));
    engine.install(one.clone(), idle(&started)).await.unwrap();
    started.reached().await;
    let began = Instant::now();
    for _ in 0..RESTARTS {
        started.reset(1);
        engine.bounce(one.clone()).await.unwrap();
        started.reached().await;
    }
    let taken = began.elapsed();
    engine.stop().await.unwrap();
    taken / RESTARTS
}

/// Returns the time from telling a worker to fail until the next generation runs.
pub(crate) async fn restart_failed(others: usize) -> Duration {
    let (engine, _events) = engine(others).await;
    let (fail, started) = (Arc::new(Notify::new()), Count::new(1));
    engine.install(Name::<()>::new("one"), failing(&fail, &started)).await.unwrap();
    started.reached().await;
    let began = Instant::now();
    for _ in 0..RESTARTS {
        started.reset(1);
        fail.notify_one();
        started.reached().await;
    }
    let taken = began.elapsed();
    engine.stop().await.unwrap();
    taken / RESTARTS
}

/// Returns an engine without delays in which the others run, and a subscriber that never reads.
async fn engine(others: usize) -> (Engine, Events) {
    let policy =
        Policy::default().backoff(Backoff::none()).bounce_delay(Duration::ZERO);
    let engine = Engine::builder().policy(policy).build().unwrap();
    let events = engine.events();
    let running = Count::new(others);
    let change = names(others)
        .into_iter()
        .fold(Change::new(), |all, name| all.install(name, idle(&running)));
    engine.apply(change).await.unwrap();
    running.reached().await;
    (engine, events)
}

fn failing(fail: &Arc<Notify>, started: &Count) -> Manifold {
    let config = (Arc::clone(fail), started.clone());
    Manifold::builder().run_with(config, |(fail, started), (), up| async move {
        let stop = up.ready(());
        started.add();
        tokio::select! {
            biased;
            () = stop.wait() => Ok(()),
            () = fail.notified() => Err("it fails".into()),
        }
    })
}
