//! What an engine is doing at one moment: reports, chains to a cause, health, graphs.

use std::sync::Arc;
use std::time::Duration;

use crankcase_engine::{
    Change, Detail, Engine, EventKind, Exit, Health, Manifold, Name, NameError, Notice, WorkerState,
};
use crankcase_testing::{EventRecorder, Script, clean_kill, test_engine, wait_for_state};
use serde_json::json;
use tokio::sync::Notify;
use tokio::time::Instant;

use crate::{A, B, C, Idle, TestResult, add_one, state};

#[tokio::test(start_paused = true)]
async fn a_report_is_written_as_lines() -> TestResult {
    let (engine, script) = (test_engine().name(&Name::new("agent")).build()?, Script::new());
    script.fail_start(Exit::missing("a lease"));
    engine.install(A, script.manifold(())).await?;
    engine.install(B, add_one(A)).await?;
    engine.provide(C, 1).await?;
    engine.settled().await?;

    let report = engine.report().await;

    let text = "/agent running, 3 workers\n  a  missing: a lease\n  b  waiting, a is missing\n  \
                c  running\n";
    assert_eq!(report.to_string(), text);
    Ok(clean_kill(engine).await?)
}

#[tokio::test(start_paused = true)]
async fn a_report_has_the_inputs_and_which_were_there_at_the_last_start() -> TestResult {
    let engine = test_engine().build()?;
    engine.provide(A, 1).await?;
    engine.install(C, Script::new().manifold((A, B.optional()))).await?;
    engine.running(&C).await?;

    let report = engine.report().await;

    let inputs = serde_json::to_value(&report.workers["c"].inputs)?;
    let expected = serde_json::json!([
        {"name": "a", "need": "required", "output": "u32", "state": "running", "was_present": true},
        {"name": "b", "need": "optional", "output": "u32", "state": "absent", "was_present": false},
    ]);
    assert_eq!(inputs, expected);
    Ok(clean_kill(engine).await?)
}

#[tokio::test(start_paused = true)]
async fn a_report_has_which_of_very_many_inputs_were_there() -> TestResult {
    let engine = test_engine().build()?;
    let names = (0..70).map(|number| Name::<u32>::parse(&format!("input-{number}")));
    let names = names.collect::<Result<Vec<_>, NameError>>()?;
    let is_there = |number: &usize| number.is_multiple_of(3);
    for number in (0..names.len()).filter(is_there) {
        engine.provide(names[number].clone(), 1).await?;
    }
    let inputs: Vec<_> = names.iter().map(Name::optional).collect();
    engine.install(C, Script::new().manifold(inputs)).await?;
    engine.running(&C).await?;

    let report = engine.report().await;

    let inputs = report.workers["c"].inputs.iter().enumerate();
    let there = inputs.filter(|(_, input)| input.was_present).map(|(number, _)| number);
    assert!(there.eq((0..names.len()).filter(is_there)), "{report:?}");

    // One that has fewer inputs is started in its place, and one that waits for another.
    engine.replace(C, Script::new().manifold(names[0].optional())).await?;
    engine.running(&C).await?;
    let waiting = (names.iter().map(Name::optional).collect::<Vec<_>>(), B);
    engine.replace(C, Script::new().manifold(waiting)).await?;
    let report = engine.report().await;

    let inputs = report.workers["c"].inputs.iter().enumerate();
    let there = inputs.filter(|(_, input)| input.was_present).map(|(number, _)| number);
    assert!(there.eq([0]), "{report:?}");
    Ok(clean_kill(engine).await?)
}

#[tokio::test(start_paused = true)]
async fn a_report_tells_the_inputs_of_a_new_manifold_from_those_of_the_last_worker() -> TestResult {
    let engine = test_engine().build()?;
    engine.provide(A, 1).await?;
    engine.install(C, Script::new().manifold(A)).await?;
    engine.running(&C).await?;

    engine.replace(C, Script::new().manifold((B, A))).await?;
    let report = engine.report().await;

    let inputs = report.workers["c"].inputs.iter();
    let there: Vec<_> = inputs.map(|input| (&*input.name, input.was_present)).collect();
    assert_eq!(there, [("b", false), ("a", true)]);
    Ok(clean_kill(engine).await?)
}

#[tokio::test(start_paused = true)]
async fn the_generations_of_a_new_name_begin_anew() -> TestResult {
    let engine = test_engine().build()?;
    engine.provide(A, 1).await?;
    engine.running(&A).await?;
    engine.bounce(&A).await?;
    engine.running(&A).await?;
    engine.uninstall(&A).await?;
    engine.settled().await?;
    let mut events = EventRecorder::new(&engine);

    engine.install(B, Script::new().manifold(C.optional())).await?;
    let before = engine.report().await.workers["b"].generation;
    engine.running(&B).await?;

    assert_eq!((before, engine.report().await.workers["b"].generation), (1, 1));
    clean_kill(engine).await?;
    events.finish().await?;
    let is_first = |kind: &EventKind| *kind == EventKind::Started { generation: 1 };
    assert!(events.seen().iter().any(|event| is_first(&event.kind)), "{events:?}");
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_report_says_until_when_a_worker_backs_off() -> TestResult {
    let (engine, script) = (test_engine().build()?, Script::new());
    script.fail_start(Exit::failed("no luck"));
    engine.install(A, script.manifold(())).await?;
    wait_for_state(&engine, "a", WorkerState::BackingOff).await?;

    let report = engine.report().await;

    let until = report.workers["a"].until.ok_or("no time")?;
    assert_eq!(until.0.duration_since(report.at.0)?, Duration::from_secs(1));
    Ok(clean_kill(engine).await?)
}

/// Returns a manifold whose reporter answers after a delay.
fn reporting_after(delay: Duration) -> Manifold {
    let reporter = move || async move {
        tokio::time::sleep(delay).await;
        serde_json::json!({ "late_by": delay.as_secs() })
    };
    Manifold::builder()
        .start(|(), _ctx| async { Ok(Idle) })
        .output(|_| 1_u32)
        .report(move |_| reporter)
        .build()
}

#[tokio::test(start_paused = true)]
async fn a_reporter_is_not_waited_for_past_its_deadline() -> TestResult {
    let engine = test_engine().build()?;
    engine.install(A, reporting_after(Duration::from_secs(60))).await?;
    engine.running(&A).await?;
    let began = Instant::now();

    let report = engine.report().await;

    assert_eq!(began.elapsed(), Duration::from_secs(1));
    assert_eq!(report.workers["a"].reporter.as_deref(), Some("no answer within 1s"));
    Ok(clean_kill(engine).await?)
}

#[tokio::test(start_paused = true)]
async fn a_reporter_with_a_longer_deadline_prolongs_no_other() -> TestResult {
    let engine = test_engine().build()?;
    let quick = Duration::from_millis(100);
    let silent = reporting_after(Duration::from_secs(60)).report_deadline(quick);
    engine.install(A, silent).await?;
    engine.install(B, reporting_after(Duration::from_millis(10))).await?;
    engine.running(&A).await?;
    engine.running(&B).await?;
    let began = Instant::now();

    engine.report().await;

    assert_eq!(began.elapsed(), quick);
    Ok(clean_kill(engine).await?)
}

#[tokio::test(start_paused = true)]
async fn a_reporter_is_asked_no_second_time_while_it_owes_an_answer() -> TestResult {
    let engine = test_engine().build()?;
    engine.install(A, reporting_after(Duration::from_secs(60))).await?;
    engine.running(&A).await?;
    engine.report().await;
    let began = Instant::now();

    let report = engine.report().await;

    let reporter = report.workers["a"].reporter.as_deref();
    assert_eq!(reporter, Some("has not answered an earlier request"));
    assert_eq!(began.elapsed(), Duration::ZERO);
    Ok(clean_kill(engine).await?)
}

#[tokio::test(start_paused = true)]
async fn a_reporter_is_asked_again_after_it_has_answered() -> TestResult {
    let engine = test_engine().build()?;
    engine.install(A, reporting_after(Duration::from_secs(2))).await?;
    engine.running(&A).await?;
    engine.report().await;
    tokio::time::sleep(Duration::from_secs(2)).await;

    let report = engine.report().await;

    let reporter = report.workers["a"].reporter.as_deref();
    assert_eq!(reporter, Some("no answer within 1s"));
    Ok(clean_kill(engine).await?)
}

#[tokio::test(start_paused = true)]
async fn a_workers_own_report_is_in_the_report() -> TestResult {
    let engine = test_engine().build()?;
    engine.install(A, reporting_after(Duration::ZERO)).await?;
    engine.running(&A).await?;

    let report = engine.report().await;

    let expected = Detail::Value(serde_json::json!({ "late_by": 0 }));
    assert_eq!(report.workers["a"].report, Some(expected));
    Ok(clean_kill(engine).await?)
}

#[tokio::test(start_paused = true)]
async fn why_says_that_a_worker_is_degraded() -> TestResult {
    let engine = test_engine().build()?;
    let mut events = EventRecorder::new(&engine);
    engine.install(A, degraded("half the disks are gone")).await?;
    events.wait_for_kind("/a", |kind| matches!(kind, EventKind::Health { .. })).await?;

    let why = engine.why("a").await.ok_or("no such worker")?;

    assert_eq!(why.to_string(), "/a is degraded: half the disks are gone");
    Ok(clean_kill(engine).await?)
}

fn degraded(reason: &'static str) -> Manifold {
    Manifold::builder().offers::<(u32,)>().run(move |(), up| async move {
        let health = up.context().health();
        let stop = up.ready((1,));
        health.degraded(reason);
        stop.wait().await;
        Ok(())
    })
}

/// Installs a worker whose health the test says itself.
async fn install_speaking(engine: &Engine) -> Result<Health, Box<dyn std::error::Error>> {
    let (sender, mut healths) = tokio::sync::mpsc::unbounded_channel();
    let speaking = Manifold::builder().offers::<(u32,)>().run(move |(), up| {
        let sender = sender.clone();
        async move {
            sender.send(up.context().health()).map_err(Exit::failed)?;
            up.ready((1,)).wait().await;
            Ok(())
        }
    });
    engine.install(A, speaking).await?;
    engine.running(&A).await?;
    Ok(healths.recv().await.ok_or("no health")?)
}

#[tokio::test(start_paused = true)]
async fn a_degraded_worker_says_when_it_tries_again() -> TestResult {
    let engine = test_engine().build()?;
    let health = install_speaking(&engine).await?;
    let mut events = engine.events();
    let why = async || engine.why("a").await.map(|why| why.to_string()).unwrap_or_default();

    health.degraded_until(Instant::now() + Duration::from_secs(8), "no route");
    assert_eq!(why().await, "/a is degraded: no route; next try in 8.0 s");
    let report = engine.report().await;
    let until = report.workers["a"].until.ok_or("for ever")?;
    assert_eq!(until.0.duration_since(report.at.0)?, Duration::from_secs(8));
    let line = format!("  a  running, degraded: no route, next try {until}\n");
    assert!(report.to_string().contains(&line), "{report}");

    // The same trouble is no news.
    health.degraded_until(Instant::now() + Duration::from_secs(16), "no route");
    assert_eq!(why().await, "/a is degraded: no route; next try in 16.0 s");
    health.degraded("no address");
    assert_eq!(why().await, "/a is degraded: no address");
    health.good();
    assert_eq!(engine.report().await.workers["a"].until, None);
    let mut said = Vec::new();
    while let Some(Notice::Event(event)) = events.try_next() {
        said.push(event.kind.to_string());
    }
    assert_eq!(said, ["degraded: no route", "degraded: no address", "in good health"]);
    Ok(clean_kill(engine).await?)
}

// On a real clock: one of them is a thread, which a paused clock would not wait for.
#[tokio::test]
async fn workers_that_are_functions_report_of_themselves_once_they_are_up() -> TestResult {
    let engine = test_engine().build()?;
    let (go, thread) = (Arc::new(Notify::new()), Name::<()>::new("thread"));
    let came = Arc::clone(&go);
    let closure = Manifold::builder().run(move |(), up| {
        let came = Arc::clone(&came);
        async move {
            came.notified().await;
            up.report(async || json!({ "seen": 3 })).ready(()).wait().await;
            Ok(())
        }
    });
    let blocking = Manifold::builder().run_blocking(|(), up| {
        up.report(|| std::future::ready(json!("a thread"))).ready(()).wait_blocking();
        Ok(())
    });
    engine.install(Name::<()>::new("closure"), closure).await?;
    engine.install(thread.clone(), blocking).await?;
    engine.running(&thread).await?;

    let starting = engine.report().await;
    go.notify_one();
    engine.running(&Name::<()>::new("closure")).await?;
    let up = engine.report().await;

    assert_eq!(starting.workers["closure"].report, None);
    assert_eq!(up.workers["closure"].report, Some(json!({ "seen": 3 }).into()));
    assert_eq!(up.workers["thread"].report, Some(json!("a thread").into()));
    Ok(clean_kill(engine).await?)
}

#[tokio::test(start_paused = true)]
async fn who_asks_finds_what_was_told_before_though_more_is_unread() -> TestResult {
    let engine = test_engine().build()?;
    let names = (0..3_000).map(|number| Name::<u32>::parse(&format!("value-{number}")));
    let names = names.collect::<Result<Vec<_>, NameError>>()?;
    let values = names.iter().cloned();
    engine.apply(values.fold(Change::new(), |all, name| all.provide(name, 1))).await?;
    let health = install_speaking(&engine).await?;
    let mut watches = Vec::new();
    for _ in 0..300 {
        watches.push(engine.output(names[0].clone()).follow().await?);
    }
    // Of a report of so many the loop lets others run in between.
    let reporting = engine.clone();
    let mut report = std::pin::pin!(reporting.report());
    tokio::select! { biased; _ = &mut report => {} () = std::future::ready(()) => {} }
    tokio::task::yield_now().await;
    // More messages than the loop looks at in one turn.
    drop(watches);
    tokio::task::yield_now().await;

    health.degraded("told before the question");
    let why = engine.why("a").await.ok_or("no such worker")?;

    assert_eq!(why.to_string(), "/a is degraded: told before the question");
    Ok(clean_kill(engine).await?)
}

#[tokio::test(start_paused = true)]
async fn a_degraded_essential_worker_makes_the_engine_unhealthy() -> TestResult {
    let engine = test_engine().build()?;
    let mut events = EventRecorder::new(&engine);
    engine.install(A, degraded("slow").essential()).await?;
    events.wait_for_kind("/a", |kind| matches!(kind, EventKind::Health { .. })).await?;

    let report = engine.report().await;

    assert_eq!(report.workers["a"].state, WorkerState::Running);
    assert!(!report.is_healthy);
    Ok(clean_kill(engine).await?)
}

#[tokio::test(start_paused = true)]
async fn a_degraded_worker_that_is_not_essential_leaves_the_engine_healthy() -> TestResult {
    let engine = test_engine().build()?;
    let mut events = EventRecorder::new(&engine);
    engine.install(A, degraded("slow")).await?;
    events.wait_for_kind("/a", |kind| matches!(kind, EventKind::Health { .. })).await?;

    let report = engine.report().await;

    assert!(report.is_healthy);
    Ok(clean_kill(engine).await?)
}

async fn small_engine() -> Result<Engine, Box<dyn std::error::Error>> {
    let engine = test_engine().build()?;
    engine.provide(A, 1).await?;
    engine.install(B, Script::new().manifold((A, C.optional()))).await?;
    engine.install(Name::<u32>::new("d"), Script::new().manifold(B.live())).await?;
    engine.settled().await?;
    Ok(engine)
}

#[tokio::test(start_paused = true)]
async fn a_graph_is_written_as_dot() -> TestResult {
    let engine = small_engine().await?;

    let dot = engine.graph().await.ok_or("it has ended")?.to_dot();

    assert_eq!(dot, include_str!("golden/graph.dot"));
    Ok(clean_kill(engine).await?)
}

#[tokio::test(start_paused = true)]
async fn a_graph_is_written_as_json() -> TestResult {
    let engine = small_engine().await?;

    let graph = engine.graph().await.ok_or("it has ended")?;
    let json = serde_json::to_string_pretty(&graph)?;

    assert_eq!(json + "\n", include_str!("golden/graph.json"));
    Ok(clean_kill(engine).await?)
}

#[tokio::test(start_paused = true)]
async fn a_part_of_a_graph_is_what_is_near() -> TestResult {
    let engine = small_engine().await?;

    let near = engine.graph().await.ok_or("it has ended")?.around("a", 1);

    let names: Vec<_> = near.nodes.iter().map(|node| node.name.as_str()).collect();
    assert_eq!(names, ["a", "b"]);
    Ok(clean_kill(engine).await?)
}

#[tokio::test(start_paused = true)]
async fn a_bounce_shows_in_state_and_generation() -> TestResult {
    let engine = test_engine().build()?;
    engine.install(A, Script::new().manifold(())).await?;
    engine.running(&A).await?;

    engine.bounce(&A).await?;
    engine.running(&A).await?;

    assert_eq!(state(&engine, "a").await, WorkerState::Running);
    assert_eq!(engine.report().await.workers["a"].generation, 2);
    Ok(clean_kill(engine).await?)
}

#[tokio::test(start_paused = true)]
async fn reports_and_graphs_of_many_are_complete_while_others_come_and_go() -> TestResult {
    let engine = test_engine().build()?;
    let name = |index: usize| Name::<u32>::parse(&format!("many-{index}"));
    let mut many = Change::new();
    for index in 0..2_000 {
        many = many.install(name(index)?, Script::new().manifold(()));
    }
    engine.apply(many).await?;
    engine.settled().await?;

    let going = engine.apply((0..500).try_fold(Change::new(), |change, index| {
        Ok::<_, NameError>(change.uninstall(&name(index)?))
    })?);
    let coming = engine.install(A, Script::new().manifold(()));
    let (report, graph) = tokio::join!(engine.report(), engine.graph());

    let graph = graph.ok_or("no graph")?;
    for index in 500..2_000 {
        let name = format!("many-{index}");
        assert_eq!(report.workers[&name].state, WorkerState::Running);
        assert!(graph.nodes.iter().any(|node| node.name == name), "{name}");
    }
    assert!(graph.nodes.is_sorted());
    going.await?;
    coming.await?;
    Ok(clean_kill(engine).await?)
}
