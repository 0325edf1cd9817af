//! How long a start may take.

use std::sync::Arc;
use std::time::Duration;

use crankcase_engine::{Change, EventKind, Manifold, Name, WorkerState};
use crankcase_testing::{EventRecorder, Script, clean_kill, test_engine, wait_for_state};
use tokio::sync::{Notify, mpsc, watch};
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::{A, TestResult, state};

#[tokio::test(start_paused = true)]
async fn a_start_that_ended_in_time_counts_though_the_engine_hears_of_it_late() -> TestResult {
    let (engine, began, done) =
        (test_engine().build()?, Arc::new(Notify::new()), Arc::new(Notify::new()));
    let seen = (Arc::clone(&began), Arc::clone(&done));
    let slow = Manifold::builder().offers::<(u32,)>().run_with(seen, |seen, (), up| async move {
        seen.0.notify_one();
        seen.1.notified().await;
        up.ready((1,)).wait().await;
        Ok(())
    });
    engine.install(A, slow.start_timeout(Duration::from_secs(1))).await?;
    began.notified().await;

    // Nothing else runs on this thread until it is too late for the timer.
    done.notify_one();
    tokio::time::advance(Duration::from_secs(2)).await;

    engine.settled().await?;
    assert_eq!(state(&engine, "a").await, WorkerState::Running);
    Ok(clean_kill(engine).await?)
}

#[tokio::test(start_paused = true)]
async fn starts_that_ended_in_time_count_however_many_the_engine_hears_of_late() -> TestResult {
    let (engine, done) = (test_engine().build()?, watch::Sender::new(false));
    let (began, mut begun) = mpsc::unbounded_channel();
    let slow = Manifold::builder().offers::<(u32,)>().run_with(
        (began, done.subscribe()),
        |(began, mut done), (), up| async move {
            began.send(()).map_err(|_| "the test is over")?;
            done.wait_for(|done| *done).await.map_err(|_| "the test is over")?;
            up.ready((1,)).wait().await;
            Ok(())
        },
    );
    let slow = slow.start_timeout(Duration::from_secs(1));
    let mut all = Change::new();
    for number in 0..1_000 {
        all = all.install(Name::<u32>::parse(&format!("w{number}"))?, slow.clone());
    }
    engine.apply(all).await?;
    for _ in 0..1_000 {
        begun.recv().await.ok_or("it does not begin")?;
    }

    // Its task is woken by the first of them, and so comes after what moves the clock.
    let mut clock = JoinSet::new();
    done.send(true)?;
    clock.spawn(tokio::time::advance(Duration::from_secs(2)));
    clock.join_all().await;
    engine.settled().await?;

    let report = engine.report().await;
    let late = report.workers.values().filter(|worker| worker.state != WorkerState::Running);
    assert_eq!(late.count(), 0);
    Ok(clean_kill(engine).await?)
}

#[tokio::test(start_paused = true)]
async fn a_start_that_takes_longer_than_its_timeout_has_failed() -> TestResult {
    let (engine, script) = (test_engine().build()?, Script::new());
    script.hold_start();
    let began = Instant::now();

    engine.install(A, script.manifold(())).await?;
    wait_for_state(&engine, "a", WorkerState::BackingOff).await?;

    assert_eq!(began.elapsed(), Duration::from_secs(300));
    let report = engine.report().await;
    let error = report.workers["a"].error.as_ref().ok_or("no error")?;
    assert_eq!(error.text, "its start took longer than 5m");
    Ok(clean_kill(engine).await?)
}

#[tokio::test(start_paused = true)]
async fn the_event_of_a_start_timeout_says_that_it_failed() -> TestResult {
    let (engine, script) = (test_engine().build()?, Script::new());
    let mut events = EventRecorder::new(&engine);
    script.hold_start();

    engine.install(A, script.manifold(()).start_timeout(Duration::from_secs(3))).await?;
    events.wait_for_kind("/a", |kind| matches!(kind, EventKind::Waiting { .. })).await?;

    let lines = events.lines();
    let text = "/a ended, failed: its start took longer than 3s".to_owned();
    assert!(lines.contains(&text), "{events:?}");
    Ok(clean_kill(engine).await?)
}
