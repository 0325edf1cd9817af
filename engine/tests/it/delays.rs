//! How long the engine waits, on a clock that stands still.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use crankcase_engine::{
    Backoff, Change, Engine, EventKind, Exit, Intensity, Manifold, Name, Outcome, Stop, Worker,
    WorkerState,
};
use crankcase_testing::{EventRecorder, Script, clean_kill, test_engine, wait_for_state};
use tokio::sync::{Notify, mpsc, watch};
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::{A, B, C, TestResult, add_one, state};

/// Returns the waits of a worker that the recorder has seen.
fn waits(events: &EventRecorder) -> Vec<Duration> {
    let delay = |kind: &EventKind| match kind {
        EventKind::Waiting { delay, .. } => Some(*delay),
        _ => None,
    };
    events.seen().iter().filter_map(|event| delay(&event.kind)).collect()
}

async fn fail_times(
    engine: &Engine,
    times: u32,
) -> Result<Vec<Duration>, crankcase_testing::Failure> {
    let script = Script::new();
    (0..times).for_each(|_| script.fail_start(Exit::failed("not yet")));
    let mut events = EventRecorder::new(engine).limit(Duration::from_secs(86_400));
    let installed = engine.install(A, script.manifold(())).await;
    installed.map_err(|error| crankcase_testing::Failure::new(error.to_string()))?;
    let started = |kind: &EventKind| matches!(kind, EventKind::Started { .. });
    events.wait_for_kind("/a", started).await?;
    Ok(waits(&events))
}

#[tokio::test(start_paused = true)]
async fn backoff_doubles_from_one_second_up_to_two_minutes() -> TestResult {
    let engine = test_engine().build()?;

    let waits = fail_times(&engine, 10).await?;

    let seconds: Vec<_> = waits.iter().map(Duration::as_secs).collect();
    assert_eq!(seconds, [1, 2, 4, 8, 16, 32, 64, 120, 120, 120]);
    Ok(clean_kill(engine).await?)
}

#[tokio::test(start_paused = true)]
async fn backoff_stays_within_its_jitter_and_uses_it() -> TestResult {
    let engine = Engine::builder().seed(7).build()?;

    let waits = fail_times(&engine, 20).await?;

    for (index, wait) in waits.iter().enumerate() {
        let base = Backoff::default().base(u32::try_from(index)? + 1).as_secs_f64();
        let factor = wait.as_secs_f64() / base;
        assert!((0.8..=1.2).contains(&factor), "wait {index} is {wait:?}");
    }
    assert!(waits.iter().any(|wait| wait.subsec_nanos() != 0));
    Ok(clean_kill(engine).await?)
}

#[tokio::test(start_paused = true)]
async fn a_restart_comes_exactly_when_the_backoff_is_over() -> TestResult {
    let (engine, script) = (test_engine().build()?, Script::new());
    script.fail_start(Exit::failed("not yet"));
    script.fail_start(Exit::failed("not yet"));
    let began = Instant::now();

    engine.install(A, script.manifold(())).await?;
    engine.running(&A).await?;

    assert_eq!(began.elapsed(), Duration::from_secs(1 + 2));
    Ok(clean_kill(engine).await?)
}

#[tokio::test(start_paused = true)]
async fn a_minute_of_good_running_clears_the_failures() -> TestResult {
    let (engine, script) = (test_engine().build()?, Script::new());
    (0..3).for_each(|_| script.fail_start(Exit::failed("not yet")));
    let mut events = EventRecorder::new(&engine);
    engine.install(A, script.manifold(())).await?;
    engine.running(&A).await?;

    tokio::time::advance(Duration::from_secs(60)).await;
    script.end(Err("a new trouble".into()));
    events.wait_for_kind("/a", |kind| *kind == EventKind::Started { generation: 5 }).await?;

    assert_eq!(waits(&events).last(), Some(&Duration::from_secs(1)));
    Ok(clean_kill(engine).await?)
}

#[tokio::test(start_paused = true)]
async fn a_minute_of_good_running_clears_the_failures_whatever_ends_it() -> TestResult {
    let (engine, script) = (test_engine().build()?, Script::new());
    (0..3).for_each(|_| script.fail_start(Exit::failed("not yet")));
    let mut events = EventRecorder::new(&engine);
    engine.install(A, script.manifold(())).await?;
    engine.running(&A).await?;
    let failures = async || engine.report().await.workers["a"].failures;

    tokio::time::advance(Duration::from_secs(59)).await;
    assert_eq!(failures().await, 3);
    tokio::time::advance(Duration::from_secs(1)).await;
    assert_eq!(failures().await, 0);
    script.fail_start(Exit::failed("a new trouble"));
    engine.bounce(&A).await?;
    events.wait_for_kind("/a", |kind| *kind == EventKind::Started { generation: 6 }).await?;

    assert_eq!(waits(&events).last(), Some(&Duration::from_secs(1)));
    Ok(clean_kill(engine).await?)
}

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
async fn less_than_a_minute_of_good_running_keeps_the_failures() -> TestResult {
    let (engine, script) = (test_engine().build()?, Script::new());
    (0..3).for_each(|_| script.fail_start(Exit::failed("not yet")));
    let mut events = EventRecorder::new(&engine);
    engine.install(A, script.manifold(())).await?;
    engine.running(&A).await?;

    tokio::time::advance(Duration::from_secs(59)).await;
    script.end(Err("the same trouble".into()));
    events.wait_for_kind("/a", |kind| *kind == EventKind::Started { generation: 5 }).await?;

    assert_eq!(waits(&events).last(), Some(&Duration::from_secs(8)));
    Ok(clean_kill(engine).await?)
}

#[tokio::test(start_paused = true)]
async fn a_manifolds_backoff_takes_the_place_of_the_engines() -> TestResult {
    let (engine, script) = (test_engine().build()?, Script::new());
    script.fail_start(Exit::failed("not yet"));
    let quick = Backoff { initial: Duration::from_millis(30), jitter: 0.0, ..Backoff::default() };
    let began = Instant::now();

    engine.install(A, script.manifold(()).backoff(quick)).await?;
    engine.running(&A).await?;

    assert_eq!(began.elapsed(), Duration::from_millis(30));
    Ok(clean_kill(engine).await?)
}

#[tokio::test(start_paused = true)]
async fn a_chain_waits_for_one_bounce_delay() -> TestResult {
    let engine = test_engine().bounce_delay(Duration::from_secs(1)).build()?;
    let script = Script::new();
    engine.install(A, script.manifold(())).await?;
    engine.install(B, add_one(A)).await?;
    engine.install(C, add_one(B)).await?;
    engine.running(&C).await?;
    let began = Instant::now();

    engine.bounce(&A).await?;
    engine.settled().await?;

    assert_eq!(began.elapsed(), Duration::from_secs(1));
    assert_eq!(state(&engine, "c").await, WorkerState::Running);
    Ok(clean_kill(engine).await?)
}

#[tokio::test(start_paused = true)]
async fn a_wave_starts_each_worker_once() -> TestResult {
    const D: Name<u32> = Name::new("d");
    let engine = test_engine().build()?;
    let sum = Manifold::builder().inputs((B, C)).offers::<(u32,)>().run(|(b, c), up| async move {
        up.ready((b + c,)).wait().await;
        Ok(())
    });
    engine.provide(A, 1).await?;
    engine.install(B, add_one(A)).await?;
    engine.install(C, add_one(A)).await?;
    engine.install(D, sum).await?;
    engine.running(&D).await?;

    engine.bounce(&A).await?;
    engine.settled().await?;

    let report = engine.report().await;
    assert!(report.workers.values().all(|worker| worker.starts == 2), "{report}");
    Ok(clean_kill(engine).await?)
}

#[tokio::test(start_paused = true)]
async fn an_input_change_does_not_shorten_a_bounce_delay() -> TestResult {
    let engine = test_engine().bounce_delay(Duration::from_secs(1)).build()?;
    let script = Script::new();
    engine.install(B, script.manifold(A.optional())).await?;
    engine.running(&B).await?;
    engine.bounce(&B).await?;
    let began = Instant::now();

    engine.provide(A, 1).await?;
    engine.running(&B).await?;

    assert_eq!(began.elapsed(), Duration::from_secs(1));
    Ok(clean_kill(engine).await?)
}

#[tokio::test(start_paused = true)]
async fn an_input_change_ends_a_backoff_but_keeps_the_failures() -> TestResult {
    let (engine, script) = (test_engine().build()?, Script::new());
    script.fail_start(Exit::failed("not with this input"));
    engine.provide(A, 1).await?;
    engine.install(B, script.manifold(A)).await?;
    wait_for_state(&engine, "b", WorkerState::BackingOff).await?;
    let began = Instant::now();

    engine.provide(A, 2).await?;
    engine.running(&B).await?;

    assert_eq!(began.elapsed(), Duration::from_millis(10));
    assert_eq!(engine.report().await.workers["b"].failures, 1);
    Ok(clean_kill(engine).await?)
}

#[tokio::test(start_paused = true)]
async fn a_bounce_by_hand_ends_a_backoff() -> TestResult {
    let (engine, script) = (test_engine().build()?, Script::new());
    script.fail_start(Exit::failed("not yet"));
    engine.install(A, script.manifold(())).await?;
    wait_for_state(&engine, "a", WorkerState::BackingOff).await?;
    let began = Instant::now();

    engine.bounce(&A).await?;
    engine.running(&A).await?;

    assert_eq!(began.elapsed(), Duration::ZERO);
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

#[tokio::test(start_paused = true)]
async fn more_failures_than_the_intensity_bears_park_a_worker() -> TestResult {
    let intensity = Intensity { failures: 2, within: Duration::from_secs(60) };
    let engine = test_engine().intensity(intensity).build()?;
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
    let intensity = Intensity { failures: 100, within: Duration::from_secs(1_000_000) };
    let engine = test_engine().intensity(intensity).build()?;
    let script = Script::new();
    (0..200).for_each(|_| script.fail_start(Exit::failed("no luck")));

    let mut events = EventRecorder::new(&engine).limit(Duration::from_secs(1_000_000));
    engine.install(A, script.manifold(())).await?;
    events.wait_for(|event| matches!(event.kind, EventKind::Spent { .. })).await?;

    assert_eq!(engine.report().await.workers["a"].starts, 101);
    Ok(clean_kill(engine).await?)
}

#[tokio::test(start_paused = true)]
async fn a_backoff_that_was_ended_by_hand_starts_nothing_later() -> TestResult {
    let (engine, script) = (test_engine().build()?, Script::new());
    script.fail_start(Exit::failed("not yet"));
    engine.install(A, script.manifold(())).await?;
    wait_for_state(&engine, "a", WorkerState::BackingOff).await?;
    engine.bounce(&A).await?;
    engine.running(&A).await?;

    tokio::time::sleep(Duration::from_secs(3600)).await;

    assert_eq!(engine.report().await.workers["a"].starts, 2);
    Ok(clean_kill(engine).await?)
}

#[tokio::test(start_paused = true)]
async fn failures_that_are_far_apart_do_not_park_a_worker() -> TestResult {
    let intensity = Intensity { failures: 2, within: Duration::from_secs(2) };
    let engine = test_engine().intensity(intensity).build()?;
    let script = Script::new();
    (0..6).for_each(|_| script.fail_start(Exit::failed("no luck")));

    engine.install(A, script.manifold(())).await?;

    engine.running(&A).await?;
    Ok(clean_kill(engine).await?)
}

#[tokio::test(start_paused = true)]
async fn an_input_change_starts_a_spent_worker_again() -> TestResult {
    let intensity = Intensity { failures: 0, within: Duration::from_secs(60) };
    let engine = test_engine().intensity(intensity).build()?;
    let script = Script::new();
    script.fail_start(Exit::failed("no luck"));
    engine.provide(A, 1).await?;
    engine.install(B, script.manifold(A)).await?;
    wait_for_state(&engine, "b", WorkerState::Spent).await?;

    engine.provide(A, 2).await?;

    engine.running(&B).await?;
    Ok(clean_kill(engine).await?)
}

#[tokio::test(start_paused = true)]
async fn settled_does_not_wait_for_a_backoff() -> TestResult {
    let (engine, script) = (test_engine().build()?, Script::new());
    script.fail_start(Exit::failed("not yet"));
    engine.install(A, script.manifold(())).await?;
    let began = Instant::now();

    engine.settled().await?;

    assert_eq!(began.elapsed(), Duration::ZERO);
    assert_eq!(state(&engine, "a").await, WorkerState::BackingOff);
    Ok(clean_kill(engine).await?)
}

#[tokio::test(start_paused = true)]
async fn engines_without_a_seed_do_not_wait_in_step() -> TestResult {
    let (one, other) = (Engine::builder().build()?, Engine::builder().build()?);

    let waits = [fail_times(&one, 3).await?, fail_times(&other, 3).await?];

    assert_ne!(waits[0], waits[1]);
    assert_ne!(one.seed(), other.seed());
    clean_kill(one).await?;
    Ok(clean_kill(other).await?)
}

/// Returns how long the same worker waits in two nested engines of one with this seed.
async fn nested_waits(seed: u64) -> Result<[Vec<Duration>; 2], Box<dyn std::error::Error>> {
    let engine = Engine::builder().seed(seed).build()?;
    let nested = Manifold::builder()
        .start(|(), ctx| async move { Ok(Engine::builder().build_nested(&ctx)?) })
        .output(|nested| Engine::clone(nested))
        .build();
    let names = [Name::<Engine>::new("north"), Name::<Engine>::new("south")];
    let mut waits = Vec::new();
    for name in names {
        engine.install(name.clone(), nested.clone()).await?;
        let script = Script::new();
        (0..3).for_each(|_| script.fail_start(Exit::failed("not yet")));
        let mut events = EventRecorder::new(&engine);
        engine.output(name.clone()).await?.install(A, script.manifold(())).await?;
        let is_up = |kind: &EventKind| matches!(kind, EventKind::Started { .. });
        events.wait_for_kind(&format!("/{name}/a"), is_up).await?;
        waits.push(self::waits(&events));
    }
    clean_kill(engine).await?;
    Ok([waits.remove(0), waits.remove(0)])
}

#[tokio::test(start_paused = true)]
async fn nested_engines_do_not_wait_in_step() -> TestResult {
    let [north, south] = nested_waits(7).await?;

    assert_ne!(north, south);
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn the_seed_of_an_engine_decides_how_long_workers_of_nested_ones_wait() -> TestResult {
    let first = nested_waits(7).await?;

    let (again, other) = (nested_waits(7).await?, nested_waits(8).await?);

    assert_eq!(first, again);
    assert_ne!(first, other);
    Ok(())
}

/// A worker that offers the seed that it was given.
struct Seeded(u64);

impl Worker for Seeded {
    async fn run(self, stop: Stop) -> Outcome {
        stop.wait().await;
        Ok(())
    }
}

#[tokio::test(start_paused = true)]
async fn a_worker_is_given_a_seed_of_its_own_each_time() -> TestResult {
    let engine = test_engine().build()?;
    let seeded = Manifold::builder()
        .start(|(), ctx| async move { Ok(Seeded(ctx.seed())) })
        .output(|seeded| seeded.0)
        .build();
    let names = [Name::<u64>::new("one"), Name::<u64>::new("other")];
    let mut seeds = BTreeSet::new();

    for name in names {
        engine.install(name.clone(), seeded.clone()).await?;
        seeds.insert(engine.output(name.clone()).await?);
        engine.bounce(&name).await?;
        seeds.insert(engine.output(name).await?);
    }

    assert_eq!(seeds.len(), 4, "{seeds:?}");
    Ok(clean_kill(engine).await?)
}
