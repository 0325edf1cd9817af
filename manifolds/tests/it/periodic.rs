//! The manifold of work that is done again and again.

use std::time::Duration;

use crankcase_engine::{Detail, Exit, Name, WorkerState};
use crankcase_manifolds::periodic;
use crankcase_testing::{Failure, Stubs, clean_kill, start, test_engine, wait_for_state};
use crankcase_workers::PeriodicConfig;
use tokio::sync::mpsc::unbounded_channel;
use tokio::time::Instant;

use crate::process::TestResult;

const STORE: Name<&str> = Name::new("store");
const SWEEPER: Name<()> = Name::new("sweeper");

fn every_minute() -> PeriodicConfig {
    PeriodicConfig::new(Duration::from_secs(60)).jitter(0.0)
}

#[tokio::test(start_paused = true)]
async fn each_turn_gets_the_inputs_and_the_report_counts_them() -> TestResult {
    let (tx, mut turns) = unbounded_channel();
    let manifold = periodic::manifold(every_minute(), STORE, move |store, turn| {
        let tx = tx.clone();
        async move { Ok(tx.send((store, turn.number))?) }
    })?;
    let started = start(manifold, Stubs::new().value(STORE, "here")).await?;

    for number in 0..3 {
        assert_eq!(turns.recv().await, Some(("here", number)));
    }

    let Some(Detail::Value(report)) = started.report().await else { return Err("none".into()) };
    assert_eq!((&report["done"], &report["skipped"]), (&3.into(), &0.into()));
    Ok(started.stop().await.map_err(|exit| exit.to_string())?)
}

#[tokio::test(start_paused = true)]
async fn the_engine_backs_off_after_a_turn_that_failed() -> Result<(), Failure> {
    let manifold = periodic::manifold(every_minute(), (), |(), _turn| async {
        Err(Exit::failed("nothing to sweep with"))
    });
    let manifold = manifold.map_err(|err| Failure::new(err.to_string()))?;
    let engine = test_engine().build().map_err(|err| Failure::new(err.to_string()))?;

    let installed = engine.install(SWEEPER, manifold).await;

    installed.map_err(|err| Failure::new(err.to_string()))?;
    wait_for_state(&engine, "sweeper", WorkerState::BackingOff).await?;
    clean_kill(engine).await
}

/// Returns when turns begin in an engine with this seed.
async fn turns(seed: u64) -> Result<Vec<Duration>, Box<dyn std::error::Error>> {
    let (engine, began) = (test_engine().seed(seed).build()?, Instant::now());
    let (tx, mut turns) = unbounded_channel();
    let config = PeriodicConfig::new(Duration::from_secs(60));
    let manifold = periodic::manifold(config, (), move |(), _turn| {
        let sent = tx.send(began.elapsed());
        async move { Ok(sent?) }
    })?;
    engine.install(SWEEPER, manifold).await?;
    let mut all = Vec::new();
    while all.len() < 5 {
        all.push(turns.recv().await.ok_or("there are no turns")?);
    }
    clean_kill(engine).await?;
    Ok(all)
}

#[tokio::test(start_paused = true)]
async fn the_seed_of_an_engine_decides_by_how_much_turns_are_put_off() -> TestResult {
    let first = turns(7).await?;

    let (again, other) = (turns(7).await?, turns(8).await?);

    assert_eq!(first, again);
    assert_ne!(first, other);
    Ok(())
}

#[test]
fn a_bad_interval_is_refused_when_the_manifold_is_built() {
    let refused =
        periodic::manifold(PeriodicConfig::new(Duration::ZERO), (), |(), _turn| async { Ok(()) });

    assert_eq!(
        refused.expect_err("it is zero").to_string(),
        "every is 0ns; expected between 1 ms and 366 days"
    );
}
