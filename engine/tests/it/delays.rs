//! How long the engine waits before it starts a worker again, on a clock that stands still.

use std::time::Duration;

use crankcase_engine::{
    Backoff, Change, Changing, Engine, EventKind, Exit, Manifold, Name, Nested, WorkerState,
};
use crankcase_testing::{
    EventRecorder, Journal, Script, clean_kill, test_engine, test_policy, wait_for_state,
};
use tokio::time::Instant;

use crate::{A, B, C, TestResult, add_one, state, with_bounce_delay};

/// Returns the waits of a worker that the recorder has seen.
pub(crate) fn waits(events: &EventRecorder) -> Vec<Duration> {
    let delay = |kind: &EventKind| match kind {
        EventKind::Waiting { delay, .. } => Some(*delay),
        _ => None,
    };
    events.seen().iter().filter_map(|event| delay(&event.kind)).collect()
}

pub(crate) async fn fail_times(
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
    engine.running(A).await?;

    assert_eq!(began.elapsed(), Duration::from_secs(1 + 2));
    Ok(clean_kill(engine).await?)
}

#[tokio::test(start_paused = true)]
async fn a_minute_of_good_running_clears_the_failures() -> TestResult {
    let (engine, script) = (test_engine().build()?, Script::new());
    (0..3).for_each(|_| script.fail_start(Exit::failed("not yet")));
    let mut events = EventRecorder::new(&engine);
    engine.install(A, script.manifold(())).await?;
    engine.running(A).await?;

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
    engine.running(A).await?;
    let failures = async || engine.report().await.workers["a"].failures;

    tokio::time::advance(Duration::from_secs(59)).await;
    assert_eq!(failures().await, 3);
    tokio::time::advance(Duration::from_secs(1)).await;
    assert_eq!(failures().await, 0);
    script.fail_start(Exit::failed("a new trouble"));
    engine.bounce(A).await?;
    events.wait_for_kind("/a", |kind| *kind == EventKind::Started { generation: 6 }).await?;

    assert_eq!(waits(&events).last(), Some(&Duration::from_secs(1)));
    Ok(clean_kill(engine).await?)
}

#[tokio::test(start_paused = true)]
async fn less_than_a_minute_of_good_running_keeps_the_failures() -> TestResult {
    let (engine, script) = (test_engine().build()?, Script::new());
    (0..3).for_each(|_| script.fail_start(Exit::failed("not yet")));
    let mut events = EventRecorder::new(&engine);
    engine.install(A, script.manifold(())).await?;
    engine.running(A).await?;

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
    let quick = Backoff::default().initial(Duration::from_millis(30)).jitter(0.0);
    let began = Instant::now();

    engine.install(A, script.manifold(()).backoff(quick)).await?;
    engine.running(A).await?;

    assert_eq!(began.elapsed(), Duration::from_millis(30));
    Ok(clean_kill(engine).await?)
}

#[tokio::test(start_paused = true)]
async fn a_chain_waits_for_one_bounce_delay() -> TestResult {
    let engine = test_engine().policy(with_bounce_delay(Duration::from_secs(1))).build()?;
    let script = Script::new();
    engine.install(A, script.manifold(())).await?;
    engine.install(B, add_one(A)).await?;
    engine.install(C, add_one(B)).await?;
    engine.running(C).await?;
    let began = Instant::now();

    engine.bounce(A).await?;
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
    engine.running(D).await?;

    engine.bounce(A).await?;
    engine.settled().await?;

    let report = engine.report().await;
    assert!(report.workers.values().all(|worker| worker.starts == 2), "{report}");
    Ok(clean_kill(engine).await?)
}

#[tokio::test(start_paused = true)]
async fn an_input_change_does_not_shorten_a_bounce_delay() -> TestResult {
    let engine = test_engine().policy(with_bounce_delay(Duration::from_secs(1))).build()?;
    let script = Script::new();
    engine.install(B, script.manifold(A.optional())).await?;
    engine.running(B).await?;
    engine.bounce(B).await?;
    let began = Instant::now();

    engine.provide(A, 1).await?;
    engine.running(B).await?;

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
    engine.running(B).await?;

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

    engine.bounce(A).await?;
    engine.running(A).await?;

    assert_eq!(began.elapsed(), Duration::ZERO);
    Ok(clean_kill(engine).await?)
}

#[tokio::test(start_paused = true)]
async fn a_backoff_that_was_ended_by_hand_starts_nothing_later() -> TestResult {
    let (engine, script) = (test_engine().build()?, Script::new());
    script.fail_start(Exit::failed("not yet"));
    engine.install(A, script.manifold(())).await?;
    wait_for_state(&engine, "a", WorkerState::BackingOff).await?;
    engine.bounce(A).await?;
    engine.running(A).await?;

    tokio::time::sleep(Duration::from_secs(3600)).await;

    assert_eq!(engine.report().await.workers["a"].starts, 2);
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

/// An input that changes every 5 ms bounces its user at every delay, unless that grows.
#[tokio::test(start_paused = true)]
async fn a_flapping_input_is_damped_and_a_calm_one_forgiven() -> TestResult {
    let (engine, journal) = (test_engine().build()?, Journal::new());
    let sender = tokio::sync::watch::Sender::new(0);
    let receiver = sender.subscribe();
    let changing = Manifold::builder().offers::<(Changing<u32>,)>().run(move |(), up| {
        let receiver = receiver.clone();
        async move {
            up.ready((Changing::new(receiver),)).wait().await;
            Ok(())
        }
    });
    engine.install(A, changing).await?;
    engine.install(B, journal.manifold(A).max_bounce_delay(Duration::from_secs(60))).await?;
    engine.running(B).await?;
    for value in 1..=50 {
        sender.send_replace(value);
        tokio::time::sleep(Duration::from_millis(5)).await;
    }

    // 10, 20, 40, 80 and 160 ms, and the time between an end and the next change.
    assert_eq!(journal.starts("b"), 5, "{:?}", journal.lines());
    engine.running(B).await?;
    assert!(journal.lines().iter().any(|line| line == "start b 50"), "{:?}", journal.lines());
    tokio::time::sleep(Duration::from_secs(61)).await;
    let mut events = EventRecorder::new(&engine);
    sender.send_replace(51);
    let delay = Duration::from_millis(10);
    let waits = EventKind::Waiting { delay, failures: 0 };
    events.wait_for_kind("/b", |kind| *kind == waits).await?;
    Ok(clean_kill(engine).await?)
}

#[tokio::test(start_paused = true)]
async fn a_longest_bounce_delay_below_the_first_is_refused() -> TestResult {
    let engine = test_engine().build()?;
    let manifold = Script::new().manifold(()).max_bounce_delay(Duration::from_millis(1));
    let refused = engine.install(A, manifold).await.err().ok_or("it was accepted")?;
    let text = crankcase_engine::WithCauses(&refused).to_string();
    assert!(text.contains("max_bounce_delay is 1ms; expected at least bounce_delay"), "{text}");
    Ok(clean_kill(engine).await?)
}

/// The workers at a border have a bounce delay of zero, which is for them alone.
#[tokio::test(start_paused = true)]
async fn nested_engines_and_workers_without_a_delay_bear_an_engine_whose_delays_grow() -> TestResult
{
    let grows = test_policy().max_bounce_delay(Duration::from_secs(60));
    let engine = test_engine().policy(grows.clone()).build()?;
    let contents = || Change::new().install(B, Journal::new().manifold(A));
    let site = Nested::new(contents).engine(move |_| test_engine().policy(grows.clone()));
    engine.provide(A, 1).await?;

    engine.install_nested(Name::<Engine>::new("site"), site.import(A, A).export(B, B)).await?;
    engine.install(C, Journal::new().manifold(B).bounce_delay(Duration::ZERO)).await?;

    engine.running(C).await?;
    Ok(clean_kill(engine).await?)
}
