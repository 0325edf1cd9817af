//! How workers are stopped, and what happens to those that do not stop.

use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use crankcase_engine::{
    Change, ChangeError, EngineError, EngineState, EventKind, Exit, Manifold, Name, WorkerState,
};
use crankcase_testing::{EventRecorder, Journal, Script, clean_kill, test_engine, wait_for_state};
use tokio::sync::Notify;
use tokio::time::Instant;

use crate::changes::idle;
use crate::{A, B, C, TestResult, add_one, state, stop_all};

#[tokio::test(start_paused = true)]
async fn a_kill_stops_dependents_before_what_they_depend_on() -> TestResult {
    let (engine, journal) = (test_engine().build()?, Journal::new());
    engine.install(A, journal.manifold(())).await?;
    engine.install(B, journal.manifold((A, C.optional()))).await?;
    engine.install(C, journal.manifold(A.live())).await?;
    engine.settled().await?;
    journal.take();

    clean_kill(engine).await?;

    assert_eq!(journal.stops(), ["b", "c", "a"]);
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn an_input_is_told_to_stop_only_when_its_users_have_ended() -> TestResult {
    let (engine, journal) = (test_engine().build()?, Journal::new());
    let slow = Script::new().recorded_in(&journal);
    slow.stop_after(Duration::from_secs(20));
    engine.install(A, journal.manifold(())).await?;
    engine.install(B, slow.manifold(A)).await?;
    engine.running(B).await?;
    journal.take();

    engine.bounce(A).await?;

    assert_eq!(journal.lines(), ["stop b", "end b", "stop a", "end a"]);
    Ok(clean_kill(engine).await?)
}

#[tokio::test(start_paused = true)]
async fn a_worker_that_ignores_its_stop_is_dropped_after_its_grace() -> TestResult {
    let (engine, script) = (test_engine().build()?, Script::new());
    let mut events = EventRecorder::new(&engine);
    script.ignore_stop();
    engine.install(A, script.manifold(())).await?;
    engine.running(A).await?;
    let began = Instant::now();

    stop_all(&engine).await?;

    assert_eq!(began.elapsed(), Duration::from_secs(30));
    events.finish().await?;
    assert!(events.seen().iter().any(|event| event.kind == EventKind::Aborted));
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_slow_worker_does_not_hold_up_unrelated_ones() -> TestResult {
    let (engine, slow) = (test_engine().build()?, Script::new());
    let mut events = EventRecorder::new(&engine);
    slow.ignore_stop();
    engine.install(A, slow.manifold(())).await?;
    engine.install(B, Script::new().manifold(())).await?;
    engine.settled().await?;
    let began = Instant::now();

    engine.kill();
    events.wait_for_kind("/b", |kind| matches!(kind, EventKind::Ended { .. })).await?;

    assert_eq!(began.elapsed(), Duration::ZERO);
    stop_all(&engine).await
}

#[tokio::test(start_paused = true)]
async fn a_manifolds_grace_takes_the_place_of_the_engines() -> TestResult {
    let (engine, script) = (test_engine().build()?, Script::new());
    script.ignore_stop();
    engine.install(A, script.manifold(()).grace(Duration::from_secs(2))).await?;
    engine.running(A).await?;
    let began = Instant::now();

    stop_all(&engine).await?;

    assert_eq!(began.elapsed(), Duration::from_secs(2));
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_worker_that_is_uninstalled_has_its_own_grace() -> TestResult {
    let (engine, script) = (test_engine().build()?, Script::new());
    script.ignore_stop();
    engine.install(A, script.manifold(()).grace(Duration::from_secs(90))).await?;
    engine.running(A).await?;
    let began = Instant::now();

    engine.uninstall(A).await?;

    assert_eq!(began.elapsed(), Duration::from_secs(90));
    clean_kill(engine).await?;
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_worker_that_is_replaced_has_its_own_grace() -> TestResult {
    let [short, long] = [2, 90].map(Duration::from_secs);
    for (own, next) in [(short, long), (long, short)] {
        for successors in [&[next][..], &[own, next], &[next, own]] {
            let (engine, script, user) = (test_engine().build()?, Script::new(), Script::new());
            script.ignore_stop();
            engine.install(A, script.manifold(()).grace(own)).await?;
            // It is told to stop only when its user has stopped, after all calls.
            user.stop_after(Duration::from_secs(1));
            engine.install(B, user.manifold(A)).await?;
            engine.running(B).await?;
            let began = Instant::now();

            let replace = |grace: &Duration| engine.replace(A, idle().grace(*grace));
            for call in successors.iter().map(replace).collect::<Vec<_>>() {
                call.await?;
            }

            assert_eq!(began.elapsed(), Duration::from_secs(1) + own, "{successors:?}");
            clean_kill(engine).await?;
        }
    }
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_kill_deadline_leaves_behind_what_has_not_stopped() -> TestResult {
    let engine = test_engine().kill_deadline(Duration::from_secs(5)).build()?;
    let script = Script::new();
    script.ignore_stop();
    engine.install(A, script.manifold(())).await?;
    engine.running(A).await?;
    let began = Instant::now();

    let ended = engine.stop().await;

    assert_eq!(began.elapsed(), Duration::from_secs(5));
    assert_eq!(left_behind(ended)?, ["/a"]);
    assert_eq!(engine.report().await.left_behind, ["/a"]);
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_kill_deadline_names_who_is_left_behind() -> TestResult {
    let engine = test_engine().kill_deadline(Duration::from_secs(5)).build()?;
    let mut events = EventRecorder::new(&engine);
    let script = Script::new();
    script.ignore_stop();
    engine.install(A, script.manifold(())).await?;
    engine.running(A).await?;

    assert!(engine.stop().await.is_err());
    events.finish().await?;

    let tail = ["/a is stuck", "/ finished"].map(str::to_owned);
    assert!(events.lines().ends_with(&tail), "{events:?}");
    Ok(())
}

/// Returns a manifold whose worker never ends by itself.
fn deaf() -> Manifold {
    Manifold::builder().offers::<(u32,)>().run(|(), up| async move {
        drop(up.ready((1,)));
        std::future::pending().await
    })
}

/// Returns who an engine has left behind, by its error.
fn left_behind(ended: Result<(), EngineError>) -> Result<Vec<String>, Box<dyn Error>> {
    match ended {
        Err(EngineError::LeftBehind { workers, .. }) => Ok(workers),
        other => Err(format!("it ended otherwise: {other:?}").into()),
    }
}

#[tokio::test(start_paused = true)]
async fn every_wait_names_the_same_workers_that_were_left_behind() -> TestResult {
    let engine = test_engine().kill_deadline(Duration::from_secs(5)).build()?;
    engine.install(B, deaf()).await?;
    engine.install(A, deaf()).await?;
    engine.running(A).await?;
    engine.running(B).await?;
    engine.kill();

    let (first, second) = tokio::join!(engine.wait(), engine.wait());
    let third = engine.stop().await;

    for ended in [first, second, third] {
        assert_eq!(left_behind(ended)?, ["/a", "/b"]);
    }
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_fatal_error_comes_before_what_was_left_behind() -> TestResult {
    let engine = test_engine().kill_deadline(Duration::from_secs(5)).build()?;
    let (deaf, broken) = (Script::new(), Script::new());
    deaf.ignore_stop();
    engine.install(A, deaf.manifold(())).await?;
    engine.install(B, broken.manifold(())).await?;
    engine.running(A).await?;
    engine.running(B).await?;

    broken.end(Err(Exit::fatal("it broke")));
    let ended = engine.wait().await;

    assert!(matches!(ended, Err(EngineError::Fatal { .. })), "{ended:?}");
    assert_eq!(engine.report().await.left_behind, ["/a"]);
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn of_many_that_were_left_behind_the_text_names_ten() -> TestResult {
    let engine = test_engine().kill_deadline(Duration::from_secs(5)).build()?;
    for index in 10..23 {
        let name = Name::<u32>::parse(&format!("w{index}"))?;
        engine.install(name.clone(), deaf()).await?;
        engine.running(name.clone()).await?;
    }

    let error = engine.stop().await.err().ok_or("it ended well")?;

    let named = "/w10, /w11, /w12, /w13, /w14, /w15, /w16, /w17, /w18, /w19 and 3 more";
    let text = format!("workers of engine / did not end in time and were left behind: {named}");
    assert_eq!(error.to_string(), text);
    assert_eq!(left_behind(Err(error))?.len(), 13);
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn who_did_not_end_in_its_grace_is_named_in_the_final_report() -> TestResult {
    let (engine, slow) = (test_engine().build()?, Script::new());
    slow.stop_after(Duration::from_secs(40));
    engine.install(A, slow.manifold(())).await?;
    engine.install(B, Script::new().manifold(())).await?;
    engine.running(A).await?;

    stop_all(&engine).await?;
    let report = engine.report().await;

    let aborted = ["a", "b"].map(|name| report.workers[name].was_aborted);
    assert_eq!(aborted, [true, false]);
    assert!(report.to_string().contains("  a  waiting, aborted\n"), "{report}");
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_stop_during_a_start_drops_it_at_once_and_is_no_failure() -> TestResult {
    let (engine, script) = (test_engine().build()?, Script::new());
    script.hold_start();
    engine.install(A, script.manifold(())).await?;
    script.held().await?;
    let began = Instant::now();

    engine.bounce(A).await?;
    engine.running(A).await?;

    assert_eq!(began.elapsed(), Duration::from_millis(10));
    assert_eq!(engine.report().await.workers["a"].failures, 0);
    Ok(clean_kill(engine).await?)
}

#[tokio::test(start_paused = true)]
async fn a_closure_that_is_not_ready_is_told_and_gets_its_grace() -> TestResult {
    let (engine, journal) = (test_engine().build()?, Journal::new());
    let (noted, began) = (journal.clone(), Arc::new(Notify::new()));
    let begins = Arc::clone(&began);
    let closure = Manifold::builder().offers::<(u32,)>().run(move |(), up| {
        let noted = noted.clone();
        begins.notify_one();
        async move {
            up.context().stop().wait().await;
            noted.note("told");
            Ok(())
        }
    });
    engine.install(A, closure).await?;
    began.notified().await;

    clean_kill(engine).await?;

    assert_eq!(journal.lines(), ["told"]);
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_kill_ends_a_backoff_and_starts_nothing() -> TestResult {
    let (engine, script) = (test_engine().build()?, Script::new());
    script.fail_start(Exit::failed("not yet"));
    engine.install(A, script.manifold(())).await?;
    wait_for_state(&engine, "a", WorkerState::BackingOff).await?;
    let began = Instant::now();

    clean_kill(engine.clone()).await?;

    assert_eq!(began.elapsed(), Duration::ZERO);
    assert_eq!(engine.report().await.workers["a"].starts, 1);
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn the_final_report_stays_after_the_end() -> TestResult {
    let engine = test_engine().build()?;
    engine.install(A, Script::new().manifold(())).await?;
    engine.running(A).await?;

    clean_kill(engine.clone()).await?;

    let report = engine.report().await;
    assert_eq!(report.state, EngineState::Stopped);
    assert_eq!(report.workers["a"].generation, 1);
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn stopping_is_told_when_the_stop_begins_and_at_any_time_after() -> TestResult {
    let (engine, slow) = (test_engine().build()?, Script::new());
    slow.stop_after(Duration::from_secs(5));
    engine.install(A, slow.manifold(())).await?;
    engine.running(A).await?;
    let began = Instant::now();
    tokio::select! {
        biased;
        () = engine.stopping() => return Err("it runs".into()),
        () = std::future::ready(()) => {}
    }

    engine.kill();
    engine.stopping().await;
    assert_eq!(began.elapsed(), Duration::ZERO);
    engine.wait().await?;
    engine.stopping().await;

    assert_eq!(began.elapsed(), Duration::from_secs(5));
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_fatal_error_is_the_beginning_of_the_stop() -> TestResult {
    let (engine, script) = (test_engine().build()?, Script::new());
    engine.install(A, script.manifold(())).await?;
    engine.running(A).await?;

    script.end(Err(Exit::fatal("no disk")));

    engine.stopping().await;
    assert!(engine.wait().await.is_err());
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn calls_after_a_kill_are_answered_with_an_error() -> TestResult {
    let engine = test_engine().build()?;
    engine.install(A, Script::new().manifold(())).await?;
    engine.kill();

    let installed = engine.install(B, add_one(A)).await;
    let bounced = engine.bounce(A).await;
    let previewed = engine.preview(Change::new().bounce(A)).await;
    engine.wait().await?;

    assert_eq!(installed, Err(ChangeError::Stopped));
    assert_eq!(bounced, Err(ChangeError::Stopped));
    assert_eq!(previewed, Err(ChangeError::Stopped));
    assert_eq!(engine.running(A).await, Err(ChangeError::Stopped));
    assert_eq!(engine.settled().await, Err(ChangeError::Stopped));
    assert_eq!(engine.output(A).await, Err(ChangeError::Stopped));
    assert!(engine.graph().await.is_none());
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_call_that_waits_for_a_worker_is_answered_when_the_engine_is_killed() -> TestResult {
    let (engine, script, name) = (test_engine().build()?, Script::new(), B);
    script.ignore_stop();
    engine.install(A, script.manifold(())).await?;
    engine.running(A).await?;
    let began = Instant::now();

    let ((), running) = tokio::join!(async { engine.kill() }, engine.running(name.clone()));

    assert_eq!(running, Err(ChangeError::Stopped));
    assert_eq!(began.elapsed(), Duration::ZERO);
    stop_all(&engine).await
}

#[tokio::test(start_paused = true)]
async fn a_worker_is_told_at_once_that_an_input_died_by_itself() -> TestResult {
    let (engine, journal, script) = (test_engine().build()?, Journal::new(), Script::new());
    let noted = journal.clone();
    let user = Manifold::builder().inputs((A, B)).run(move |_, up| {
        let noted = noted.clone();
        async move {
            let stop = up.ready(());
            stop.input_lost().await;
            noted.note(format!("lost, told to stop: {}", stop.is_stopped()));
            stop.wait().await;
            Ok(())
        }
    });
    let slow = Script::new();
    slow.stop_after(Duration::from_secs(1));
    engine.install(A, script.manifold(())).await?;
    engine.provide(B, 1).await?;
    let top = Name::<()>::new("top");
    engine.install(top.clone(), user).await?;
    engine.install(C, slow.manifold(top.clone())).await?;
    engine.running(C).await?;
    let mut events = EventRecorder::new(&engine);

    script.end(Err("it died".into()));
    events.wait_for_kind("/top", |kind| matches!(kind, EventKind::InputLost)).await?;
    engine.settled().await?;

    assert_eq!(journal.lines()[0], "lost, told to stop: false");
    Ok(clean_kill(engine).await?)
}

#[tokio::test(start_paused = true)]
async fn dropping_every_handle_stops_nothing() -> TestResult {
    let (engine, journal) = (test_engine().build()?, Journal::new());
    let mut events = EventRecorder::new(&engine);
    let script = Script::new().recorded_in(&journal);
    engine.install(A, script.manifold(())).await?;
    events.wait_for_kind("/a", |kind| matches!(kind, EventKind::Started { .. })).await?;

    let clone = engine.clone();
    drop(engine);
    tokio::time::sleep(Duration::from_secs(3600)).await;

    assert_eq!(state(&clone, "a").await, WorkerState::Running);
    Ok(clean_kill(clone).await?)
}

#[tokio::test(start_paused = true)]
async fn who_asks_an_engine_that_has_just_ended_is_answered_before_its_last_report_is_made()
-> TestResult {
    let engine = test_engine().build()?;
    engine.install(A, Script::new().manifold(())).await?;
    engine.running(A).await?;

    stop_all(&engine).await?;

    // Nothing else has run on this thread since the engine has ended.
    tokio::select! {
        biased;
        refused = engine.preview(Change::new().bounce(A)) => {
            assert!(matches!(refused, Err(ChangeError::Stopped)), "{refused:?}");
        }
        () = std::future::ready(()) => return Err("it waits".into()),
    }
    Ok(())
}
