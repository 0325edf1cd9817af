//! Waits that end with what was seen.

use crankcase_engine::{EventKind, Exit, WorkerState};
use crankcase_testing::{
    EventRecorder, Script, clean_kill, test_engine, wait_for_event, wait_for_state,
};

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
    engine.running(&A).await?;

    let failed = events.wait_for(|_| true).await;

    assert_eq!(
        failed.err().ok_or("it came")?.to_string(),
        "1 events were missed; nothing was seen"
    );
    Ok(clean_kill(engine).await?)
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
    engine.running(&A).await?;
    script.end(Err(Exit::fatal("it broke")));

    let failed = wait_for_state(&engine, "a", WorkerState::Parked).await;

    let text = failed.err().ok_or("it came")?.to_string();
    let begin = "\"a\" was never parked: the engine has ended; seen:\n  running";
    assert!(text.starts_with(begin), "{text}");
    Ok(())
}
