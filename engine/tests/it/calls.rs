//! Calls are begun and answered whatever else the engine does (S16).

use std::time::Duration;

use crankcase_engine::{Backoff, Change, Engine, Manifold, Name, WorkerState};
use crankcase_testing::{Journal, test_engine};

use crate::{A, B, TestResult, state, with_bounce_delay};

/// How many workers fail without an end.
const LOOPS: usize = 300;

fn names(count: usize) -> Result<Vec<Name<()>>, crankcase_engine::NameError> {
    (0..count).map(|index| Name::parse(&format!("loop{index}"))).collect()
}

/// Returns a worker that fails as soon as it is started, and is started at once.
fn fails() -> Manifold {
    Manifold::builder().run(|(), _up| async { Err("again".into()) }).backoff(Backoff::none())
}

async fn crash_looping(names: &[Name<()>]) -> Result<Engine, Box<dyn std::error::Error>> {
    let engine = test_engine().build()?;
    let all = names.iter().cloned();
    engine.apply(all.fold(Change::new(), |all, name| all.install(name, fails()))).await?;
    Ok(engine)
}

#[tokio::test]
async fn calls_are_answered_among_workers_that_fail_without_an_end() -> TestResult {
    let names = names(LOOPS)?;
    let engine = crash_looping(&names).await?;

    engine.park(names[0].clone()).await?;
    engine.bounce(names[1].clone()).await?;
    engine.uninstall(names[2].clone()).await?;
    engine.provide(A, 1).await?;

    assert_eq!(state(&engine, "loop0").await, WorkerState::Parked);
    assert_eq!(state(&engine, "loop2").await, WorkerState::Absent);
    assert_eq!(engine.output(A).await?, 1);
    Ok(engine.stop().await?)
}

#[tokio::test]
async fn a_group_parks_all_workers_that_fail_without_an_end() -> TestResult {
    let names = names(LOOPS)?;
    let engine = crash_looping(&names).await?;

    engine.apply(names.iter().cloned().fold(Change::new(), Change::park)).await?;

    engine.settled().await?;
    let report = engine.report().await;
    assert!(report.workers.values().all(|worker| worker.state == WorkerState::Parked));
    Ok(engine.stop().await?)
}

#[tokio::test(start_paused = true)]
async fn a_wave_elsewhere_delays_no_answer() -> TestResult {
    const USERS: usize = 5_000;
    let (engine, journal) =
        (test_engine().policy(with_bounce_delay(Duration::ZERO)).build()?, Journal::new());
    engine.provide(A, 1).await?;
    let user = || {
        Manifold::builder().inputs(A).run(|_, up| async {
            up.ready(()).wait().await;
            Ok(())
        })
    };
    let all = names(USERS)?.into_iter();
    engine.apply(all.fold(Change::new(), |all, name| all.install(name, user()))).await?;
    engine.settled().await?;

    let bounced = engine.bounce(A);
    engine.install(B, journal.manifold(())).await?;

    let report = engine.report().await;
    let are_done = |worker: &crankcase_engine::WorkerReport| worker.starts == 2;
    let done = report.workers.values().filter(|worker| are_done(worker)).count();
    assert!(done < USERS, "the wave was over before the install was answered");
    assert_eq!(report.workers["b"].starts, 1, "what can start was told to");
    bounced.await?;
    Ok(engine.stop().await?)
}
