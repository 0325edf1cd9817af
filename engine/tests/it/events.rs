//! What is told as it happens: events, metrics, spans.

use std::sync::Arc;
use std::time::Duration;

use crankcase_engine::{
    EndKind, EngineInput, Event, EventKind, Exit, Manifold, Metrics, Name, Notice, Origin,
};
use crankcase_testing::{EventRecorder, Journal, Script, clean_kill, test_engine};
use parking_lot::Mutex;

use crate::log::log;
use crate::{A, B, C, TestResult, add_one, stop_all};

#[tokio::test(start_paused = true)]
async fn health_that_is_told_in_a_loop_is_one_message() -> TestResult {
    let engine = test_engine().build()?;
    let mut events = EventRecorder::new(&engine);
    let talkative = Manifold::builder().offers::<(u32,)>().run(|(), up| async move {
        let ctx = up.context().clone();
        let stop = up.ready((1,));
        for round in 0..1_000 {
            ctx.health().degraded(format!("round {round}"));
        }
        stop.wait().await;
        ctx.health().good();
        Ok(())
    });
    engine.install(A, talkative).await?;
    engine.running(A).await?;

    clean_kill(engine).await?;
    events.finish().await?;

    let is_health = |line: &&String| line.contains("degraded") || line.contains("health");
    let lines = events.lines();
    let told: Vec<_> = lines.iter().filter(is_health).collect();
    assert_eq!(told, ["/a degraded: round 999", "/a in good health"]);
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn an_event_says_who_asked_and_why() -> TestResult {
    let engine = test_engine().build()?;
    let mut events = EventRecorder::new(&engine);
    engine.install(A, Script::new().manifold(())).await?;

    engine.asked_by("ops", "new certificate").bounce(A).await?;
    let event = events.wait_for_kind("/a", |kind| *kind == EventKind::Bounced).await?;

    let origin = event.origin.ok_or("no origin")?;
    assert_eq!(origin.to_string(), "ops: new certificate");
    Ok(clean_kill(engine).await?)
}

#[tokio::test(start_paused = true)]
async fn a_start_learns_who_asked_for_it_and_the_next_one_does_not() -> TestResult {
    let (engine, asked) = (test_engine().build()?, Arc::new(Mutex::new(Vec::new())));
    let noting = Arc::clone(&asked);
    let curious = Manifold::builder().offers::<(u32,)>().run(move |(), up| {
        noting.lock().push(up.context().asked_by().map(Origin::to_string));
        async move {
            up.ready((1,)).wait().await;
            Ok(())
        }
    });
    engine.install(A, curious).await?;
    engine.running(A).await?;

    let ops = engine.asked_by("ops", "new certificate");
    ops.bounce(A).await?;
    engine.running(A).await?;
    engine.bounce(A).await?;
    engine.running(A).await?;
    ops.park(A).await?;
    engine.asked_by("ada", "all is well").unpark(A).await?;
    engine.running(A).await?;

    let expected = [None, Some("ops: new certificate"), None, Some("ada: all is well")];
    assert_eq!(*asked.lock(), expected.map(|text| text.map(str::to_owned)));
    Ok(clean_kill(engine).await?)
}

#[tokio::test(start_paused = true)]
async fn who_asked_for_a_start_of_a_manifold_that_was_replaced_is_forgotten() -> TestResult {
    let (engine, asked) = (test_engine().build()?, Arc::new(Mutex::new(Vec::new())));
    let curious = || {
        let noting = Arc::clone(&asked);
        Manifold::builder().inputs(B).offers::<(u32,)>().run(move |_: u32, up| {
            noting.lock().push(up.context().asked_by().map(Origin::to_string));
            async move {
                up.ready((1,)).wait().await;
                Ok(())
            }
        })
    };
    engine.install(A, curious()).await?;
    engine.asked_by("ops", "new certificate").bounce(A).await?;

    engine.replace(A, curious()).await?;
    engine.provide(B, 1).await?;
    engine.running(A).await?;

    assert_eq!(*asked.lock(), [None]);
    Ok(clean_kill(engine).await?)
}

#[tokio::test(start_paused = true)]
async fn what_a_worker_notes_stands_among_the_events_with_who_and_why() -> TestResult {
    let engine = test_engine().build()?;
    let mut events = EventRecorder::new(&engine);
    let mending = Manifold::builder().run(|(), up| async move {
        let journal = up.context().journal();
        let stop = up.ready(());
        journal.note("mended", Origin::new("ada", "it broke"));
        stop.wait().await;
        Ok(())
    });

    engine.install(C.output::<()>(), mending).await?;

    let noted = events.wait_for(|event| matches!(event.kind, EventKind::Noted { .. })).await?;
    assert!(noted.to_string().ends_with("Z /c mended (ada: it broke)"), "{noted}");
    Ok(clean_kill(engine).await?)
}

#[tokio::test(start_paused = true)]
async fn a_subscriber_that_lags_is_told_how_much_it_missed() -> TestResult {
    let engine = test_engine().event_capacity(4).build()?;
    let mut events = engine.events();
    for index in 0..3 {
        engine.provide(Name::<u32>::parse(&format!("n{index}"))?, index).await?;
    }
    engine.settled().await?;

    let notice = events.next().await.ok_or("no event")?;

    let Notice::Missed(missed) = notice else { return Err("nothing was missed".into()) };
    let Some(Notice::Event(next)) = events.next().await else { return Err("no event".into()) };
    assert_eq!((missed, next.sequence), (5, 5));
    stop_all(&engine).await
}

#[tokio::test(start_paused = true)]
async fn an_events_json_has_its_path_and_kind() -> TestResult {
    let engine = test_engine().build()?;
    let mut events = EventRecorder::new(&engine);
    engine.install(A, Script::new().manifold(())).await?;
    let event = events.wait_for_kind("/a", |kind| *kind == EventKind::Installed).await?;

    let mut json = serde_json::to_value(&event)?;

    json["at"].take();
    let expected = serde_json::json!({
        "sequence": 0, "at": null, "path": "/a", "event": {"type": "installed"}, "origin": null,
        "cause": null,
    });
    assert_eq!(json, expected);
    Ok(clean_kill(engine).await?)
}

#[tokio::test(start_paused = true)]
async fn the_json_of_an_end_says_how_and_why() -> TestResult {
    let (engine, script) = (test_engine().build()?, Script::new());
    let mut events = EventRecorder::new(&engine);
    script.fail_start(Exit::missing("its licence"));
    engine.install(A, script.manifold(())).await?;
    let is_end = |kind: &EventKind| matches!(kind, EventKind::Ended { end: EndKind::Missing, .. });
    let event = events.wait_for_kind("/a", is_end).await?;

    let json = serde_json::to_value(&event.kind)?;

    let expected = serde_json::json!({
        "type": "ended", "end": "missing", "error": "its licence", "is_panic": false,
    });
    assert_eq!(json, expected);
    Ok(clean_kill(engine).await?)
}

#[derive(Default)]
struct Counts {
    lines: Mutex<Vec<String>>,
}

impl Metrics for Counts {
    fn worker_started(&self, path: &str, took: Duration) {
        self.lines.lock().push(format!("{path} started in {took:?}"));
    }

    fn worker_ended(&self, path: &str, end: EndKind, lived: Duration) {
        self.lines.lock().push(format!("{path} ended, {end} after {lived:?}"));
    }
}

#[tokio::test(start_paused = true)]
async fn metrics_count_staged_workers() -> TestResult {
    let counts = Arc::new(Counts::default());
    let (engine, script) = (test_engine().metrics(counts.clone()).build()?, Script::new());
    engine.install(A, script.manifold(())).await?;
    engine.running(A).await?;

    tokio::time::sleep(Duration::from_secs(3)).await;
    clean_kill(engine).await?;

    assert_eq!(*counts.lines.lock(), ["/a started in 0ns", "/a ended, stopped after 3s"]);
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn metrics_count_closure_workers() -> TestResult {
    let counts = Arc::new(Counts::default());
    let engine = test_engine().metrics(counts.clone()).build()?;
    engine.provide(A, 1).await?;
    engine.running(A).await?;

    clean_kill(engine).await?;

    assert_eq!(*counts.lines.lock(), ["/a started in 0ns", "/a ended, stopped after 0ns"]);
    Ok(())
}

#[test]
fn what_a_worker_traces_carries_its_path() -> TestResult {
    let log = log();
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build()?;
    let user = Manifold::builder().inputs(A).run(|_, up| async move {
        let stop = up.ready(());
        tracing::info!("hello");
        stop.wait().await;
        Ok(())
    });
    let used = Manifold::builder().offers::<(u32,)>().run(|(), up| async move {
        up.ready((1,)).wait().await;
        Ok(())
    });

    let line = runtime.block_on(async {
        let engine = test_engine().name(Name::new("agent")).build()?;
        let user_name = Name::<()>::new("user");
        engine.install(user_name.clone(), user).await?;
        tracing::info_span!("request").in_scope(|| engine.install(A, used)).await?;
        engine.running(user_name.clone()).await?;
        clean_kill(engine).await?;
        Ok::<_, Box<dyn std::error::Error>>(log.line(&["hello"]).await)
    })?;

    // Neither who has installed what it uses nor that one's worker has started it.
    assert!(line.contains(r#" worker{worker="/agent/user"}:"#), "{line}");
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn an_ordered_stop_has_a_last_line() -> TestResult {
    let log = log();
    let engine = test_engine().name(Name::new("orderly")).build()?;
    engine.provide(A, 1).await?;

    clean_kill(engine).await?;

    let line = log.line(&["/orderly"]).await;
    assert!(line.contains("INFO") && line.contains("the engine has ended in order"), "{line}");
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn the_drop_of_the_last_handle_while_workers_run_is_said_once() -> TestResult {
    let (log, said) = (log(), "the last handle of the engine was dropped");
    let engine = test_engine().build()?;
    engine.install(A, Journal::new().manifold(EngineInput)).await?;
    engine.running(A).await?;
    let other = engine.asked_by("ada", "a test");

    drop(engine);
    other.ping().await?;
    assert_eq!(log.count(said), 0);
    // Neither an engine that has nothing to do nor one that stops is said to be lost.
    drop(test_engine().build()?);
    let stopped = test_engine().build()?;
    stopped.install(A, Journal::new().manifold(())).await?;
    stopped.stop().await?;
    drop(stopped);

    drop(other);
    log.line(&[said]).await;
    assert_eq!(log.count(said), 1);
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn an_event_names_the_event_that_caused_it() -> TestResult {
    let engine = test_engine().build()?;
    let mut events = EventRecorder::new(&engine);
    engine.install(A, Script::new().offering((1_u32,), ())).await?;
    engine.running(A).await?;
    engine.install(B, add_one(A)).await?;
    engine.running(B).await?;
    engine.bounce(A).await?;
    engine.running(B).await?;
    clean_kill(engine).await?;
    events.finish().await?;

    let seen = events.seen();
    let told = |event: &Event| format!("{} {}", event.path(), event.kind);
    let caused = |event: &Event| {
        let cause = event.cause.and_then(|cause| seen.iter().find(|it| it.sequence == cause));
        format!("{} <- {}", told(event), cause.map_or_else(|| "nothing".to_owned(), told))
    };
    let lines: Vec<_> = seen.iter().map(caused).collect();
    assert_eq!(
        lines,
        [
            "/a installed <- nothing",
            "/a starting, generation 1 <- /a installed",
            "/a started, generation 1 <- /a starting, generation 1",
            "/b installed <- nothing",
            "/b starting, generation 1 <- /b installed",
            "/b started, generation 1 <- /b starting, generation 1",
            "/a bounced <- nothing",
            "/b stopping <- /a bounced",
            "/b ended, stopped <- /b stopping",
            "/a stopping <- /a bounced",
            "/a ended, stopped <- /a stopping",
            "/a waits 10ms <- /a ended, stopped",
            "/a starting, generation 2 <- /a waits 10ms",
            "/a started, generation 2 <- /a starting, generation 2",
            "/b starting, generation 2 <- /a started, generation 2",
            "/b started, generation 2 <- /b starting, generation 2",
            "/ killed <- nothing",
            "/b stopping <- / killed",
            "/b ended, stopped <- /b stopping",
            "/a stopping <- / killed",
            "/a ended, stopped <- /a stopping",
            "/ finished <- nothing",
        ]
    );
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn events_can_be_asked_for_from_a_number_on() -> TestResult {
    let engine = test_engine().event_capacity(8).build()?;
    let _keeps_the_log = engine.events();
    engine.install(A, Script::new().offering((1_u32,), ())).await?;
    engine.running(A).await?;

    let mut late = engine.events_since(1);
    engine.park(A).await?;

    let mut told = Vec::new();
    while let Some(Notice::Event(event)) = late.try_next() {
        told.push((event.sequence, event.kind.to_string()));
    }
    let told: Vec<_> = told.iter().map(|(number, text)| (*number, text.as_str())).collect();
    assert_eq!(
        told,
        [
            (1, "starting, generation 1"),
            (2, "started, generation 1"),
            (3, "parked"),
            (4, "stopping"),
            (5, "ended, stopped"),
        ]
    );
    engine.unpark(A).await?;
    engine.running(A).await?;
    // Of nine events the log holds eight.
    assert!(matches!(engine.events_since(0).try_next(), Some(Notice::Missed(1))));
    Ok(clean_kill(engine).await?)
}

#[tokio::test(start_paused = true)]
async fn a_bounce_is_the_cause_of_the_stops_of_all_that_depend_on_it() -> TestResult {
    let engine = test_engine().build()?;
    engine.install(A, Script::new().offering((1_u32,), ())).await?;
    engine.install(B, add_one(A)).await?;
    engine.install(C, add_one(B)).await?;
    engine.install(Name::<u32>::new("d"), add_one(C)).await?;
    engine.settled().await?;
    let mut events = EventRecorder::new(&engine);
    engine.bounce(A).await?;
    clean_kill(engine).await?;
    events.finish().await?;

    let seen = events.seen();
    let bounced = seen.iter().find(|event| event.kind == EventKind::Bounced).ok_or("no bounce")?;
    let stops = seen.iter().filter(|event| event.kind == EventKind::Stopping).take(4);
    let stops: Vec<_> = stops.map(|event| (event.path(), event.cause)).collect();
    let expected = ["/d", "/c", "/b", "/a"].map(|path| (path.to_owned(), Some(bounced.sequence)));
    assert_eq!(stops, expected);
    Ok(())
}
