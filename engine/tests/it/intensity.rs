//! How many failures are borne before a worker stays stopped.

use std::time::Duration;

use crankcase_engine::{EventKind, Exit, Intensity, WorkerState};
use crankcase_testing::{
    EventRecorder, Script, clean_kill, test_engine, test_policy, wait_for_state,
};

use crate::{A, B, TestResult};

#[tokio::test(start_paused = true)]
async fn more_failures_than_the_intensity_bears_park_a_worker() -> TestResult {
    let intensity = Intensity::new(2, Duration::from_secs(60));
    let engine = test_engine().policy(test_policy().intensity(intensity)).build()?;
    let script = Script::new();
    (0..3).for_each(|_| script.fail_start(Exit::failed("no luck")));

    engine.install(A, script.manifold(())).await?;
    wait_for_state(&engine, "a", WorkerState::Spent).await?;

    engine.settled().await?;
    let why = engine.why("a").await.ok_or("no such worker")?;
    assert_eq!(why.to_string(), "/a failed 3 times: no luck; parked until an input changes");
    Ok(clean_kill(engine).await?)
}

#[tokio::test(start_paused = true)]
async fn an_intensity_counts_any_number_of_failures() -> TestResult {
    let intensity = Intensity::new(100, Duration::from_secs(1_000_000));
    let engine = test_engine().policy(test_policy().intensity(intensity)).build()?;
    let script = Script::new();
    (0..200).for_each(|_| script.fail_start(Exit::failed("no luck")));

    let mut events = EventRecorder::new(&engine).limit(Duration::from_secs(1_000_000));
    engine.install(A, script.manifold(())).await?;
    events.wait_for(|event| matches!(event.kind, EventKind::Spent { .. })).await?;

    assert_eq!(engine.report().await.workers["a"].starts, 101);
    Ok(clean_kill(engine).await?)
}

#[tokio::test(start_paused = true)]
async fn failures_that_are_far_apart_do_not_park_a_worker() -> TestResult {
    let intensity = Intensity::new(2, Duration::from_secs(2));
    let engine = test_engine().policy(test_policy().intensity(intensity)).build()?;
    let script = Script::new();
    (0..6).for_each(|_| script.fail_start(Exit::failed("no luck")));

    engine.install(A, script.manifold(())).await?;

    engine.running(A).await?;
    Ok(clean_kill(engine).await?)
}

#[tokio::test(start_paused = true)]
async fn an_input_change_starts_a_spent_worker_again() -> TestResult {
    let intensity = Intensity::new(0, Duration::from_secs(60));
    let engine = test_engine().policy(test_policy().intensity(intensity)).build()?;
    let script = Script::new();
    script.fail_start(Exit::failed("no luck"));
    engine.provide(A, 1).await?;
    engine.install(B, script.manifold(A)).await?;
    wait_for_state(&engine, "b", WorkerState::Spent).await?;

    engine.provide(A, 2).await?;

    engine.running(B).await?;
    Ok(clean_kill(engine).await?)
}
