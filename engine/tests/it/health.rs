//! What workers say of their health, and what is made of it.

use std::time::Duration;

use crankcase_engine::{
    Change, Engine, EventKind, Exit, Health, Manifold, Name, NameError, Notice, WorkerState,
};
use crankcase_testing::{EventRecorder, clean_kill, test_engine};
use tokio::time::Instant;

use crate::{A, B, TestResult};

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
    engine.running(A).await?;
    Ok(healths.recv().await.ok_or("no health")?)
}

#[tokio::test(start_paused = true)]
async fn a_degraded_worker_says_when_it_tries_again() -> TestResult {
    let engine = test_engine().build()?;
    let health = install_speaking(&engine).await?;
    let mut events = engine.events();
    let why = async || engine.why("a").await.map(|why| why.to_string()).unwrap_or_default();

    health.attempt_failed(Instant::now() + Duration::from_secs(8), "no route");
    assert_eq!(why().await, "/a is degraded: no route; next try in 8.0 s");
    let report = engine.report().await;
    let until = report.workers["a"].until.ok_or("for ever")?;
    assert_eq!(until.0.duration_since(report.at.0)?, Duration::from_secs(8));
    let line = format!("  a  running, degraded: no route, next try {until}\n");
    assert!(report.to_string().contains(&line), "{report}");

    // The same trouble is another attempt.
    health.attempt_failed(Instant::now() + Duration::from_secs(16), "no route");
    assert_eq!(why().await, "/a is degraded: no route; next try in 16.0 s");
    let attempts = engine.report().await.workers["a"].attempts.ok_or("no attempts")?;
    assert_eq!((attempts.count, attempts.first), (2, report.at));
    health.degraded("no address");
    assert_eq!(why().await, "/a is degraded: no address");
    health.good();
    let worker = &engine.report().await.workers["a"];
    assert_eq!((worker.until, worker.attempts), (None, None));
    let mut said = Vec::new();
    while let Some(Notice::Event(event)) = events.try_next() {
        said.push(event.kind.to_string());
    }
    let again = "attempt 2 has failed like the one before";
    assert_eq!(said, ["degraded: no route", again, "degraded: no address", "in good health"]);
    Ok(clean_kill(engine).await?)
}

#[tokio::test(start_paused = true)]
async fn to_be_held_back_is_news_also_for_the_same_reason() -> TestResult {
    let engine = test_engine().build()?;
    let health = install_speaking(&engine).await?;
    let mut events = engine.events();
    health.degraded("no disk");
    engine.ping().await?;
    for by in ["b", "c", "c"] {
        health.held_back(by, "no disk");
        engine.ping().await?;
    }

    let mut said = Vec::new();
    while let Some(Notice::Event(event)) = events.try_next() {
        said.push(event.kind.to_string());
    }
    assert_eq!(said, ["degraded: no disk"; 3]);
    Ok(clean_kill(engine).await?)
}

#[tokio::test(start_paused = true)]
async fn a_worker_that_leaves_its_work_alone_is_paused_and_its_chain_ends_there() -> TestResult {
    let engine = test_engine().build()?;
    let health = install_speaking(&engine).await?;
    let said = async || {
        let worker = engine.report().await.workers.remove("a").ok_or("no a")?;
        let why = engine.why("a").await.ok_or("no chain")?;
        Ok::<_, &str>((worker.state, worker.degraded, why.to_string()))
    };
    let reason = || Some("ada: a look".to_owned());

    health.paused("ada: a look");
    let paused = "/a is paused: ada: a look".to_owned();
    assert_eq!(said().await, Ok((WorkerState::Paused, reason(), paused)));
    health.degraded("ada: a look");
    let degraded = "/a is degraded: ada: a look".to_owned();
    assert_eq!(said().await, Ok((WorkerState::Running, reason(), degraded)));

    Ok(clean_kill(engine).await?)
}

#[tokio::test(start_paused = true)]
async fn what_a_worker_waits_for_is_in_its_report_its_chain_and_the_graph() -> TestResult {
    let engine = test_engine().build()?;
    let health = install_speaking(&engine).await?;
    engine.install(B, degraded("no disk")).await?;
    engine.running(B).await?;
    engine.settled().await?;
    let said = async || {
        let worker = engine.report().await.workers.remove("a").ok_or("no a")?;
        let why = engine.why("a").await.ok_or("no chain")?;
        let graph = engine.graph().await.ok_or("no graph")?;
        let node = graph.nodes.into_iter().find(|node| node.name == "a").ok_or("no node")?;
        assert_eq!(worker.waits_for, node.waits_for);
        assert_eq!(worker.waits_for, why.steps[0].waits_for);
        Ok::<_, &str>((worker.state, worker.waits_for, why.to_string()))
    };
    let b = vec!["b".to_owned()];

    health.waits_for("b", "waits for b");
    let waits = "/a waits for /b (waits for b), which is degraded: no disk";
    assert_eq!(said().await, Ok((WorkerState::Running, b.clone(), waits.to_owned())));
    health.held_back("b", "held back by b");
    let held = "/a is held back by /b (held back by b), which is degraded: no disk";
    assert_eq!(said().await, Ok((WorkerState::HeldBack, b, held.to_owned())));
    health.good();
    let good = "/a is running".to_owned();
    assert_eq!(said().await, Ok((WorkerState::Running, Vec::new(), good)));

    Ok(clean_kill(engine).await?)
}

#[tokio::test(start_paused = true)]
async fn a_change_of_whom_a_worker_waits_for_is_an_event_also_with_the_same_reason() -> TestResult {
    let engine = test_engine().build()?;
    let health = install_speaking(&engine).await?;
    let mut events = EventRecorder::new(&engine);
    for other in ["b", "b", "c"] {
        health.waits_for(other, "the seat is taken");
        engine.settled().await?;
    }

    clean_kill(engine).await?;
    events.finish().await?;

    let lines = events.lines();
    let told = lines.iter().filter(|line| line.contains("the seat is taken")).count();
    assert_eq!(told, 2, "{lines:?}");
    Ok(())
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
