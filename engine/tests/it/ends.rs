//! What the end of a worker leads to.

use crankcase_engine::{
    ChangeError, Engine, EngineError, EventKind, Exit, Manifold, Name, Severity, WorkerState,
};
use crankcase_testing::{
    EventRecorder, Journal, Script, clean_kill, dirty_kill, test_engine, wait_for_state,
};

use crate::{A, B, TestResult, add_one, state};

fn is_started(generation: u32) -> impl Fn(&EventKind) -> bool {
    move |kind| *kind == EventKind::Started { generation }
}

#[tokio::test(start_paused = true)]
async fn a_worker_that_is_done_stays_stopped() -> TestResult {
    let (engine, script) = (test_engine().build()?, Script::new());
    engine.install(A, script.manifold(())).await?;
    engine.running(A).await?;

    script.end(Ok(()));
    wait_for_state(&engine, "a", WorkerState::Done).await?;

    engine.settled().await?;
    assert_eq!(engine.report().await.workers["a"].starts, 1);
    Ok(clean_kill(engine).await?)
}

#[tokio::test(start_paused = true)]
async fn a_worker_that_is_done_starts_again_when_its_input_changes() -> TestResult {
    let (engine, script) = (test_engine().build()?, Script::new());
    engine.provide(A, 1).await?;
    engine.install(B, script.manifold(A)).await?;
    script.end(Ok(()));
    wait_for_state(&engine, "b", WorkerState::Done).await?;

    engine.provide(A, 2).await?;

    assert_eq!(engine.output(B).await?, 2);
    Ok(clean_kill(engine).await?)
}

#[tokio::test(start_paused = true)]
async fn a_worker_that_is_done_withdraws_its_outputs() -> TestResult {
    let (engine, script) = (test_engine().build()?, Script::new());
    engine.install(A, script.manifold(())).await?;
    engine.install(B, add_one(A)).await?;
    engine.running(B).await?;

    script.end(Ok(()));
    wait_for_state(&engine, "a", WorkerState::Done).await?;

    engine.settled().await?;
    assert_eq!(state(&engine, "b").await, WorkerState::Waiting);
    assert_eq!(engine.output(A).follow().await?.get(), None);
    Ok(clean_kill(engine).await?)
}

#[tokio::test(start_paused = true)]
async fn a_failed_worker_is_started_again_after_its_backoff() -> TestResult {
    let (engine, script) = (test_engine().build()?, Script::new());
    let mut events = EventRecorder::new(&engine);
    engine.install(A, script.manifold(())).await?;

    script.end(Err("no route to host".into()));
    events.wait_for_kind("/a", is_started(2)).await?;

    let tail = [
        "/a ended, failed: no route to host",
        "/a waits 1s after a failure",
        "/a starting, generation 2",
        "/a started, generation 2",
    ];
    assert!(events.lines().ends_with(&tail.map(str::to_owned)), "{events:?}");
    Ok(clean_kill(engine).await?)
}

#[tokio::test(start_paused = true)]
async fn what_happens_by_hand_is_not_said_to_be_for_former_failures() -> TestResult {
    let (engine, script) = (test_engine().build()?, Script::new());
    let mut events = EventRecorder::new(&engine);
    script.fail_start(Exit::failed("no luck"));
    engine.install(A, script.manifold(())).await?;
    engine.running(A).await?;

    engine.bounce(A).await?;
    events.wait_for_kind("/a", is_started(3)).await?;
    engine.park(A).await?;
    let why = engine.why("a").await.ok_or("no a")?.to_string();

    let waits = events.seen().iter().filter_map(|event| match event.kind {
        EventKind::Waiting { failures, .. } => Some(failures),
        _ => None,
    });
    assert_eq!(waits.collect::<Vec<_>>(), [1, 0], "{events:?}");
    assert_eq!(why, "/a is parked");
    Ok(clean_kill(engine).await?)
}

#[tokio::test(start_paused = true)]
async fn a_failed_start_is_a_failure() -> TestResult {
    let (engine, script) = (test_engine().build()?, Script::new());
    script.fail_start(Exit::failed("no disk"));

    engine.install(A, script.manifold(())).await?;
    wait_for_state(&engine, "a", WorkerState::BackingOff).await?;

    let report = engine.report().await;
    assert_eq!(report.workers["a"].failures, 1);
    assert_eq!(report.workers["a"].error.as_ref().ok_or("no error")?.text, "no disk");
    Ok(clean_kill(engine).await?)
}

#[tokio::test(start_paused = true)]
async fn an_error_is_reported_with_its_causes() -> TestResult {
    let (engine, script) = (test_engine().build()?, Script::new());
    let cause: std::num::ParseIntError = "x".parse::<u8>().err().ok_or("it parses")?;
    script.fail_start(Exit::failed(std::io::Error::other(cause)));

    engine.install(A, script.manifold(())).await?;
    wait_for_state(&engine, "a", WorkerState::BackingOff).await?;

    let error = engine.report().await.workers["a"].error.clone().ok_or("no error")?;
    assert_eq!(error.text, "invalid digit found in string");
    Ok(clean_kill(engine).await?)
}

#[tokio::test(start_paused = true)]
async fn a_bounce_waits_the_bounce_delay_and_is_no_failure() -> TestResult {
    let (engine, script) = (test_engine().build()?, Script::new());
    let mut events = EventRecorder::new(&engine);
    engine.install(A, script.manifold(())).await?;

    script.end(Err(Exit::Bounce));
    events.wait_for_kind("/a", is_started(2)).await?;

    let lines = events.lines();
    assert!(lines.contains(&"/a waits 10ms".to_owned()), "{events:?}");
    assert!(engine.report().await.workers["a"].error.is_none());
    Ok(clean_kill(engine).await?)
}

#[tokio::test(start_paused = true)]
async fn a_worker_that_misses_something_says_what() -> TestResult {
    let (engine, script) = (test_engine().build()?, Script::new());
    script.fail_start(Exit::missing("no lease yet"));

    engine.install(A, script.manifold(())).await?;
    engine.settled().await?;

    assert_eq!(state(&engine, "a").await, WorkerState::Missing);
    let why = engine.why("a").await.ok_or("no such worker")?;
    assert_eq!(why.to_string(), "/a misses something: no lease yet");
    Ok(clean_kill(engine).await?)
}

#[tokio::test(start_paused = true)]
async fn a_worker_that_misses_something_starts_again_when_an_input_changes() -> TestResult {
    let (engine, script) = (test_engine().build()?, Script::new());
    engine.provide(A, 1).await?;
    script.fail_start(Exit::missing("a lease"));
    engine.install(B, script.manifold(A)).await?;
    wait_for_state(&engine, "b", WorkerState::Missing).await?;

    engine.provide(A, 2).await?;

    engine.running(B).await?;
    Ok(clean_kill(engine).await?)
}

#[tokio::test(start_paused = true)]
async fn an_uninstalled_worker_is_gone_and_its_dependents_wait() -> TestResult {
    let (engine, script) = (test_engine().build()?, Script::new());
    let mut events = EventRecorder::new(&engine);
    engine.install(A, script.manifold(())).await?;
    engine.install(B, add_one(A)).await?;
    engine.running(B).await?;

    script.end(Err(Exit::Uninstall));
    events.wait_for_kind("/a", |kind| *kind == EventKind::Removed).await?;
    engine.settled().await?;

    assert!(!engine.report().await.workers.contains_key("a"));
    let why = engine.why("b").await.ok_or("no such worker")?;
    assert_eq!(why.to_string(), "/b waits for /a, which is not installed");
    Ok(clean_kill(engine).await?)
}

#[tokio::test(start_paused = true)]
async fn dependents_of_an_uninstalled_name_come_back_with_it() -> TestResult {
    let (engine, script) = (test_engine().build()?, Script::new());
    let mut events = EventRecorder::new(&engine);
    engine.install(A, script.manifold(())).await?;
    engine.install(B, add_one(A)).await?;
    script.end(Err(Exit::Uninstall));
    events.wait_for_kind("/a", |kind| *kind == EventKind::Removed).await?;

    engine.provide(A, 7).await?;

    engine.running(B).await?;
    assert_eq!(engine.output(B).await?, 8);
    Ok(clean_kill(engine).await?)
}

#[tokio::test(start_paused = true)]
async fn a_fatal_error_stops_the_engine_and_is_what_wait_returns() -> TestResult {
    let (engine, script) = (test_engine().build()?, Script::new());
    engine.install(A, script.manifold(())).await?;

    script.end(Err(Exit::fatal("the disk is gone")));
    let error = engine.wait().await.err().ok_or("it ended well")?;

    let EngineError::Fatal { path, source } = error else { return Err("another error".into()) };
    assert_eq!((path.as_str(), source.to_string().as_str()), ("/a", "the disk is gone"));
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn wait_gives_every_caller_the_same_error() -> TestResult {
    let (engine, script) = (test_engine().build()?, Script::new());
    script.fail_start(Exit::fatal("the disk is gone"));
    engine.install(A, script.manifold(())).await?;

    let (first, second) = tokio::join!(engine.wait(), engine.wait());
    let third = engine.wait().await;

    let text = "worker /a had a fatal error";
    for result in [first, second, third] {
        assert_eq!(result.err().ok_or("it ended well")?.to_string(), text);
    }
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn the_gravest_fatal_error_is_what_wait_returns() -> TestResult {
    let severity = |exit: &Exit| match exit.to_string().as_str() {
        "grave" => Severity::fatal(9),
        _ => Severity::FATAL,
    };
    let engine = test_engine().classifier(severity).build()?;
    let (first, second) = (Script::new(), Script::new());
    engine.install(A, first.manifold(())).await?;
    engine.install(B, second.manifold(())).await?;
    engine.running(A).await?;
    engine.running(B).await?;

    first.end(Err("slight".into()));
    second.answer_stop(Err("grave".into()));
    let error = dirty_kill_after_its_own_end(&engine).await?;

    assert_eq!(error.to_string(), "worker /b had a fatal error");
    Ok(())
}

async fn dirty_kill_after_its_own_end(
    engine: &Engine,
) -> Result<EngineError, Box<dyn std::error::Error>> {
    drop(engine.wait().await);
    Ok(dirty_kill(engine.clone()).await?)
}

#[tokio::test(start_paused = true)]
async fn a_manifolds_classifier_takes_the_place_of_the_engines() -> TestResult {
    let engine = test_engine().classifier(|_| Severity::FATAL).build()?;
    let script = Script::new();
    script.fail_start(Exit::failed("a trifle"));

    let lenient = script.manifold(()).classifier(|_| Severity::ORDINARY);
    engine.install(A, lenient).await?;

    engine.running(A).await?;
    Ok(clean_kill(engine).await?)
}

#[tokio::test(start_paused = true)]
async fn a_manifolds_filter_is_asked_before_the_engines() -> TestResult {
    let journal = Journal::new();
    let (own, engines) = (journal.clone(), journal.clone());
    let filter = move |exit: Exit| {
        engines.note(format!("engine: {exit}"));
        Err(Exit::Bounce)
    };
    let engine = test_engine().filter(filter).build()?;
    let script = Script::new();
    script.fail_start(Exit::failed("lost"));

    let manifold = script.manifold(()).filter(move |exit| {
        own.note(format!("manifold: {exit}"));
        Err(Exit::failed("mapped"))
    });
    engine.install(A, manifold).await?;
    engine.running(A).await?;

    assert_eq!(journal.lines(), ["manifold: lost", "engine: mapped"]);
    Ok(clean_kill(engine).await?)
}

#[tokio::test(start_paused = true)]
async fn a_filter_is_asked_about_errors_only() -> TestResult {
    let journal = Journal::new();
    let asked = journal.clone();
    let engine = test_engine().build()?;
    let script = Script::new();
    for exit in [Exit::Bounce, Exit::missing("an input"), Exit::failed("an error")] {
        script.fail_start(exit);
    }

    let manifold = script.manifold(B.optional()).filter(move |exit| {
        asked.note(exit.to_string());
        Err(exit)
    });
    engine.install(A, manifold).await?;
    wait_for_state(&engine, "a", WorkerState::Missing).await?;
    engine.bounce(A).await?;
    engine.running(A).await?;

    assert_eq!(journal.lines(), ["an error"]);
    Ok(clean_kill(engine).await?)
}

#[tokio::test(start_paused = true)]
async fn a_second_filter_is_asked_about_errors_only() -> TestResult {
    let (engine, script) = (test_engine().build()?, Script::new());
    script.fail_start(Exit::failed("no licence"));

    let manifold = script
        .manifold(B.optional())
        .filter(|_| Err(Exit::missing("a licence")))
        .filter(|exit| Err(Exit::fatal(exit.to_string())));
    engine.install(A, manifold).await?;

    wait_for_state(&engine, "a", WorkerState::Missing).await?;
    Ok(clean_kill(engine).await?)
}

#[tokio::test(start_paused = true)]
async fn an_error_of_a_worker_that_is_being_stopped_is_no_failure() -> TestResult {
    let (engine, script) = (test_engine().build()?, Script::new());
    engine.install(A, script.manifold(())).await?;
    engine.running(A).await?;
    script.answer_stop(Err("it broke while it stopped".into()));

    engine.bounce(A).await?;
    engine.running(A).await?;

    assert_eq!(engine.report().await.workers["a"].failures, 0);
    Ok(clean_kill(engine).await?)
}

#[tokio::test(start_paused = true)]
async fn a_fatal_error_of_a_worker_that_is_being_stopped_stops_the_engine() -> TestResult {
    let (engine, script) = (test_engine().build()?, Script::new());
    engine.install(A, script.manifold(())).await?;
    engine.running(A).await?;
    script.answer_stop(Err(Exit::fatal("it broke while it stopped")));

    let bounced = engine.bounce(A).await;

    assert_eq!(bounced, Err(ChangeError::Stopped));
    assert!(engine.wait().await.is_err());
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn the_uninstall_of_a_replaced_worker_is_ignored() -> TestResult {
    let (engine, script) = (test_engine().build()?, Script::new());
    engine.install(A, script.manifold(())).await?;
    engine.running(A).await?;
    script.answer_stop(Err(Exit::Uninstall));

    engine.replace(A, script.manifold(())).await?;

    engine.running(A).await?;
    Ok(clean_kill(engine).await?)
}

#[tokio::test(start_paused = true)]
async fn a_worker_that_ends_while_it_is_parked_stays_parked() -> TestResult {
    let (engine, script) = (test_engine().build()?, Script::new());
    engine.install(A, script.manifold(())).await?;
    engine.running(A).await?;
    script.answer_stop(Err(Exit::Bounce));

    engine.park(A).await?;
    engine.settled().await?;

    assert_eq!(state(&engine, "a").await, WorkerState::Parked);
    Ok(clean_kill(engine).await?)
}

#[tokio::test(start_paused = true)]
async fn a_closure_that_ends_without_being_ready_was_never_up() -> TestResult {
    const QUICK: Name<()> = Name::new("quick");
    let engine = test_engine().build()?;
    let mut events = EventRecorder::new(&engine);

    let quick = Manifold::builder().run(|(), up| async move {
        drop(up);
        Ok(())
    });
    engine.install(QUICK, quick).await?;
    wait_for_state(&engine, "quick", WorkerState::Done).await?;
    clean_kill(engine).await?;

    events.finish().await?;
    assert!(!events.seen().iter().any(|event| matches!(event.kind, EventKind::Started { .. })));
    Ok(())
}
