//! Checks around a manifold that its workers must pass.

use std::sync::Arc;
use std::time::Duration;

use crankcase_engine::{
    BoxError, EventKind, Exit, Live, Manifold, Name, Outcome, Report, Stop, Worker, WorkerState,
};
use crankcase_testing::{EventRecorder, Journal, Script, clean_kill, test_engine, wait_for_state};
use tokio::sync::{Notify, watch};

use crate::{A, B, C, TestResult, add_one, stop_all, with_grace};

const OPEN: Name<bool> = Name::new("open");

/// Writes into a journal when it is dropped.
struct Pass(Journal, &'static str);

impl Drop for Pass {
    fn drop(&mut self) {
        self.0.note(format!("leave {}", self.1));
    }
}

/// Admits while `open` is true, and writes down who came and left.
fn guarded(manifold: Manifold, journal: &Journal, name: &'static str) -> Manifold {
    let journal = journal.clone();
    manifold.admitted(OPEN, move |is_open, _ctx| {
        journal.note(format!("ask {name} {is_open}"));
        if is_open {
            Ok(Pass(journal.clone(), name))
        } else {
            Err(Exit::missing(format!("{name} is closed")))
        }
    })
}

#[tokio::test(start_paused = true)]
async fn who_is_not_admitted_is_not_started_until_an_input_of_the_check_changes() -> TestResult {
    let (engine, journal) = (test_engine().build()?, Journal::new());
    engine.provide(OPEN, false).await?;

    engine.install(A, guarded(journal.manifold(()), &journal, "door")).await?;
    wait_for_state(&engine, "a", WorkerState::Missing).await?;
    engine.provide(OPEN, true).await?;
    engine.running(A).await?;

    assert_eq!(journal.lines(), ["ask door false", "ask door true", "start a"]);
    Ok(clean_kill(engine).await?)
}

#[tokio::test(start_paused = true)]
async fn a_pass_is_held_until_the_worker_has_ended() -> TestResult {
    let (engine, journal) = (test_engine().build()?, Journal::new());
    engine.provide(OPEN, true).await?;
    engine.install(A, guarded(journal.manifold(()), &journal, "door")).await?;
    engine.running(A).await?;

    engine.provide(OPEN, false).await?;
    wait_for_state(&engine, "a", WorkerState::Missing).await?;

    let lines = ["ask door true", "start a", "stop a", "end a", "leave door", "ask door false"];
    assert_eq!(journal.lines(), lines);
    Ok(clean_kill(engine).await?)
}

#[tokio::test(start_paused = true)]
async fn a_pass_is_held_until_what_the_worker_offered_is_dropped() -> TestResult {
    let (engine, journal) = (test_engine().build()?, Journal::new());
    let seats = Manifold::builder().offers::<(Arc<Pass>,)>().run_with(
        journal.clone(),
        |journal, (), up| async move {
            drop(up.ready((Arc::new(Pass(journal, "seat")),)));
            Ok(())
        },
    );
    engine.provide(OPEN, true).await?;

    engine.install(Name::<()>::new("a"), guarded(seats, &journal, "door")).await?;
    wait_for_state(&engine, "a", WorkerState::Done).await?;

    assert_eq!(journal.lines(), ["ask door true", "leave seat", "leave door"]);
    Ok(clean_kill(engine).await?)
}

#[tokio::test(start_paused = true)]
async fn a_pass_is_held_until_the_reporter_of_the_worker_is_dropped() -> TestResult {
    let (engine, journal) = (test_engine().build()?, Journal::new());
    let reports = Manifold::builder().run_with(journal.clone(), |journal, (), up| async move {
        let pass = Pass(journal, "report");
        let reporter = move || {
            let Pass(_, text) = &pass;
            std::future::ready(serde_json::json!(text))
        };
        drop(up.report(reporter).ready(()));
        Ok(())
    });
    engine.provide(OPEN, true).await?;

    engine.install(Name::<()>::new("a"), guarded(reports, &journal, "door")).await?;
    wait_for_state(&engine, "a", WorkerState::Done).await?;

    assert_eq!(journal.lines(), ["ask door true", "leave report", "leave door"]);
    Ok(clean_kill(engine).await?)
}

#[tokio::test(start_paused = true)]
async fn a_pass_is_given_up_when_the_start_fails_or_the_future_is_dropped() -> TestResult {
    let (engine, journal, script) = (test_engine().build()?, Journal::new(), Script::new());
    engine.provide(OPEN, true).await?;
    script.fail_start(Exit::failed("not yet"));
    script.ignore_stop();

    engine.install(A, guarded(script.manifold(()), &journal, "door")).await?;
    engine.running(A).await?;
    engine.bounce(A).await?;

    let lines = ["ask door true", "leave door", "ask door true", "leave door"];
    assert_eq!(journal.lines()[..4], lines);
    Ok(clean_kill(engine).await?)
}

#[tokio::test(start_paused = true)]
async fn the_check_that_was_added_last_is_asked_first() -> TestResult {
    let (engine, journal) = (test_engine().build()?, Journal::new());
    engine.provide(OPEN, true).await?;
    let inner = guarded(journal.manifold(()), &journal, "door");

    engine.install(A, guarded(inner, &journal, "gate")).await?;
    engine.running(A).await?;
    engine.uninstall(A).await?;

    let lines = [
        "ask gate true",
        "ask door true",
        "start a",
        "stop a",
        "end a",
        "leave door",
        "leave gate",
    ];
    assert_eq!(journal.lines(), lines);
    Ok(clean_kill(engine).await?)
}

#[tokio::test(start_paused = true)]
async fn a_wrapped_manifold_keeps_inputs_outputs_reporter_and_settings() -> TestResult {
    struct Idle(u32);
    impl Worker for Idle {
        async fn run(self, stop: Stop) -> Outcome {
            stop.wait().await;
            Err("it did not want to end".into())
        }
    }
    let engine = test_engine().build()?;
    let manifold = Manifold::builder()
        .inputs((A, B.optional()))
        .start(|(a, b), _ctx| async move { Ok(Idle(a + b.unwrap_or(100))) })
        .output(|idle| idle.0)
        .report(|idle| {
            let value = idle.0;
            move || async move { serde_json::json!({ "value": value }) }
        })
        .build()
        .essential();
    engine.provide(A, 1).await?;
    engine.provide(OPEN, true).await?;

    engine.install(C, guarded(manifold, &Journal::new(), "door")).await?;

    assert_eq!(engine.output(C).await?, 101);
    let report = engine.report().await;
    let report = serde_json::to_value(&report.workers["c"])?;
    assert_eq!(report["report"]["value"], 101);
    assert_eq!(report["is_essential"], true);
    let names: Vec<_> =
        report["inputs"].as_array().into_iter().flatten().map(|i| &i["name"]).collect();
    assert_eq!(names, ["a", "b", "open"]);
    stop_all(&engine).await
}

#[tokio::test(start_paused = true)]
async fn an_input_that_both_declare_is_shared() -> TestResult {
    let (engine, journal) = (test_engine().build()?, Journal::new());
    engine.provide(OPEN, true).await?;

    engine.install(A, guarded(journal.manifold(OPEN), &journal, "door")).await?;
    engine.running(A).await?;

    assert_eq!(journal.lines(), ["ask door true", "start a true"]);
    let report = engine.report().await;
    assert_eq!(report.workers["a"].inputs.len(), 1);
    Ok(clean_kill(engine).await?)
}

#[tokio::test(start_paused = true)]
async fn a_live_input_that_the_check_requires_bounces_and_its_view_stays_open() -> TestResult {
    let engine = test_engine().build()?;
    let closed = watch::Sender::new(false);
    let follows = Manifold::builder().inputs(OPEN.live()).offers::<(u32,)>().run_with(
        closed.clone(),
        |closed, mut open: Live<bool>, up| async move {
            let stop = up.ready((u32::from(open.get() == Some(true)),));
            tokio::select! {
                biased;
                () = stop.wait() => {}
                _ = open.changed() => { closed.send_replace(true); }
            }
            Ok(())
        },
    );
    engine.provide(OPEN, true).await?;

    engine.install(A, guarded(follows, &Journal::new(), "door")).await?;
    assert_eq!(engine.output(A).await?, 1);
    engine.provide(OPEN, false).await?;
    wait_for_state(&engine, "a", WorkerState::Missing).await?;

    assert!(!*closed.borrow(), "the view said that the engine is gone, or changed");
    assert_eq!(engine.report().await.workers["a"].inputs[0].need, "required");
    Ok(clean_kill(engine).await?)
}

#[tokio::test(start_paused = true)]
async fn a_check_that_panics_is_a_panic_of_the_worker() -> TestResult {
    let engine = test_engine().build()?;
    let mut events = EventRecorder::new(&engine);

    let manifold = Journal::new().manifold(());
    engine
        .install(A, manifold.admitted((), |(), _ctx| -> Result<(), Exit> { panic!("no") }))
        .await?;
    wait_for_state(&engine, "a", WorkerState::BackingOff).await?;

    let ended = |kind: &EventKind| matches!(kind, EventKind::Ended { is_panic: true, .. });
    events.wait_for_kind("/a", ended).await?;
    Ok(clean_kill(engine).await?)
}

#[tokio::test(start_paused = true)]
async fn a_worker_that_is_not_admitted_was_not_started() -> TestResult {
    let (engine, journal) = (test_engine().build()?, Journal::new());
    let admit = |seats, _ctx: &_| if seats == 0 { Err(Exit::missing("no seat")) } else { Ok(()) };
    engine.provide(B, 0).await?;
    engine.install(A, journal.manifold(()).admitted(B, admit)).await?;
    wait_for_state(&engine, "a", WorkerState::Missing).await?;
    let refused = engine.report().await;

    engine.provide(B, 1).await?;
    engine.running(A).await?;

    let admitted = engine.report().await;
    let of = |report: &Report| (report.workers["a"].starts, report.workers["a"].generation);
    assert_eq!((of(&refused), of(&admitted)), ((0, 1), (1, 2)));
    Ok(clean_kill(engine).await?)
}

#[tokio::test(start_paused = true)]
async fn a_pass_that_panics_when_it_is_dropped_harms_nobody() -> TestResult {
    struct Spiteful;
    impl Drop for Spiteful {
        fn drop(&mut self) {
            panic!("I will not go");
        }
    }
    let (engine, journal) = (test_engine().build()?, Journal::new());
    let admit = |(), _ctx: &_| Ok::<_, Exit>(Spiteful);

    engine.install(A, journal.manifold(()).admitted((), admit)).await?;
    engine.running(A).await?;
    engine.bounce(A).await?;
    engine.running(A).await?;

    assert_eq!(journal.starts("a"), 2);
    Ok(clean_kill(engine).await?)
}

#[tokio::test(start_paused = true)]
async fn dependents_of_who_is_not_admitted_are_told_why() -> TestResult {
    let (engine, journal) = (test_engine().build()?, Journal::new());
    engine.provide(A, 1).await?;
    engine.provide(OPEN, true).await?;
    engine.install(B, guarded(add_one(A), &journal, "door")).await?;
    engine.install(C, add_one(B)).await?;
    assert_eq!(engine.output(C).await?, 3);

    engine.provide(OPEN, false).await?;
    wait_for_state(&engine, "b", WorkerState::Missing).await?;

    let why = engine.why("c").await.map(|why| why.to_string());
    assert_eq!(why.as_deref(), Some("/c waits for /b, which misses something: door is closed"));
    Ok(clean_kill(engine).await?)
}

#[tokio::test]
async fn a_pass_is_held_while_blocking_work_of_the_worker_goes_on() -> TestResult {
    let (engine, journal) =
        (test_engine().policy(with_grace(Duration::ZERO)).build()?, Journal::new());
    let (begun, (go, going)) = (Arc::new(Notify::new()), std::sync::mpsc::channel::<()>());
    let going = Arc::new(parking_lot::Mutex::new(Some(going)));
    let config = (journal.clone(), Arc::clone(&begun), going);
    let blocks =
        Manifold::builder().run_with(config, |(journal, begun, going), (), up| async move {
            let stop = up.ready(());
            let Some(going) = going.lock().take() else { return Ok(()) };
            let work = move || {
                begun.notify_one();
                let result = going.recv();
                journal.note("the work is over");
                result
            };
            stop.blocking(work).await?.map_err(BoxError::from)?;
            Ok(())
        });
    engine.provide(OPEN, true).await?;
    engine.install(Name::<()>::new("a"), guarded(blocks, &journal, "door")).await?;
    begun.notified().await;

    let mut events = EventRecorder::new(&engine);
    engine.kill();
    events.wait_for_kind("/a", |kind| *kind == EventKind::Aborted).await?;
    assert_eq!(journal.lines(), ["ask door true"]);
    go.send(())?;
    engine.wait().await?;

    assert_eq!(journal.lines(), ["ask door true", "the work is over", "leave door"]);
    Ok(())
}

#[tokio::test]
async fn a_blocking_worker_is_admitted_like_any_other() -> TestResult {
    let (engine, journal) = (test_engine().build()?, Journal::new());
    let blocking = Manifold::builder().offers::<(u32,)>().run_blocking(|(), up| {
        up.ready((7,)).wait_blocking();
        Ok(())
    });
    engine.provide(OPEN, false).await?;
    engine.install(A, guarded(blocking, &journal, "door")).await?;
    wait_for_state(&engine, "a", WorkerState::Missing).await?;

    engine.provide(OPEN, true).await?;
    assert_eq!(engine.output(A).await?, 7);
    clean_kill(engine).await?;

    assert_eq!(journal.lines(), ["ask door false", "ask door true", "leave door"]);
    Ok(())
}
