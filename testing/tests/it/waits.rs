//! Waits that end with what was seen.

use std::time::Duration;

use crankcase_engine::{Event, EventKind, Exit, WorkerState};
use crankcase_testing::{
    EventRecorder, Script, clean_kill, test_engine, wait_for_event, wait_for_state,
};
use tokio::time::Instant;

use crate::{A, TestResult};

#[tokio::test(start_paused = true)]
async fn a_recorder_lists_what_it_has_seen_when_the_engine_ends() -> TestResult {
    let (engine, script) = (test_engine().build()?, Script::new());
    let mut events = EventRecorder::new(&engine);
    script.fail_start(Exit::fatal("it broke"));

    engine.install(A, script.manifold(())).await?;
    let failed = events.wait_for(|event| event.kind == EventKind::Parked).await;

    let text = "the engine has ended and nothing came that was waited for; seen:\n  /a \
                installed\n  /a starting, generation 1\n  /a ended, fatal: it broke\n  / killed\n  \
                / finished";
    assert_eq!(failed.err().ok_or("it came")?.to_string(), text);
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_recorder_that_lags_says_so() -> TestResult {
    let engine = test_engine().event_capacity(2).build()?;
    let mut events = EventRecorder::new(&engine);
    engine.install(A, Script::new().manifold(())).await?;
    engine.running(A).await?;

    let failed = events.wait_for(|_| true).await;

    assert_eq!(
        failed.err().ok_or("it came")?.to_string(),
        "an event was missed, which an engine with a larger `event_capacity` keeps; nothing was seen"
    );
    Ok(engine.stop().await?)
}

#[tokio::test(start_paused = true)]
async fn a_wait_for_an_event_ends_with_the_engine() -> TestResult {
    let engine = test_engine().build()?;
    let mut events = engine.events();
    engine.kill();

    let failed = wait_for_event(&engine, &mut events, |_| false).await;

    let text = "the engine has ended and nothing came that was waited for; seen:\n  / killed\n  / \
                finished";
    assert_eq!(failed.err().ok_or("it came")?.to_string(), text);
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_wait_for_a_state_lists_the_states_it_saw() -> TestResult {
    let (engine, script) = (test_engine().build()?, Script::new());
    engine.install(A, script.manifold(())).await?;
    engine.running(A).await?;
    script.end(Err(Exit::fatal("it broke")));

    let failed = wait_for_state(&engine, "a", WorkerState::Parked).await;

    let text = failed.err().ok_or("it came")?.to_string();
    let begin = "\"a\" was never parked: the engine has ended; seen:\n  running";
    assert!(text.starts_with(begin), "{text}");
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_wait_for_what_never_comes_ends_and_says_what_came() -> TestResult {
    let engine = test_engine().build()?;
    let (mut recorder, mut events) = (EventRecorder::new(&engine), engine.events());
    engine.install(A, Script::new().manifold(())).await?;

    let second = |event: &Event| event.kind == EventKind::Started { generation: 2 };
    let recorded = recorder.wait_for(second).await.err().ok_or("it came")?;
    let followed = wait_for_event(&engine, &mut events, second).await.err().ok_or("it came")?;
    let state = wait_for_state(&engine, "a", WorkerState::Parked).await.err().ok_or("it is")?;
    let finished = recorder.finish().await.err().ok_or("it ended")?;

    let seen = "seen:\n  /a installed\n  /a starting, generation 1\n  /a started, generation 1";
    let text = format!("nothing came within 600s that was waited for; {seen}");
    assert_eq!(recorded.to_string(), text);
    assert_eq!(followed.to_string(), text);
    assert_eq!(finished.to_string(), format!("the engine has not ended within 600s; {seen}"));
    assert_eq!(state.to_string(), "\"a\" was not parked within 600s; seen:\n  running");
    Ok(clean_kill(engine).await?)
}

#[tokio::test(start_paused = true)]
async fn a_recorder_waits_for_as_long_as_it_is_told() -> TestResult {
    let engine = test_engine().build()?;
    let limit = Duration::from_secs(86_400);
    let mut events = EventRecorder::new(&engine).limit(limit);
    let began = Instant::now();

    let failed = events.wait_for(|_| true).await;

    assert!(failed.is_err());
    assert_eq!(began.elapsed(), limit);
    Ok(clean_kill(engine).await?)
}

#[tokio::test(start_paused = true)]
async fn waits_for_a_scripts_workers_come_to_an_end() -> TestResult {
    let script = Script::new();

    let held = script.held().await.err().ok_or("one is held")?;
    let blocked = script.blocked().await.err().ok_or("one is blocked")?;

    assert_eq!(held.to_string(), "no start of the script was held within 600s");
    let text = "no worker of the script has blocked its thread within 600s";
    assert_eq!(blocked.to_string(), text);
    Ok(())
}
