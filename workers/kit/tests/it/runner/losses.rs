//! Errors that nobody waits for: they are in the log.

use crankcase_engine::{Exit, Outcome, Stop, Worker};
use crankcase_testing::clean_kill;
use crankcase_workers::{ChildSpec, Ending};

use super::{Idle, deaf, run};
use crate::events::{Events, Fields};
use crate::running::{TestResult, guarded};

/// A worker that fails when it is told to stop.
struct Failing(fn(&'static str) -> Exit);

impl Worker for Failing {
    async fn run(self, stop: Stop) -> Outcome {
        stop.wait().await;
        Err(self.0("the disk is full"))
    }
}

fn failing(with: fn(&'static str) -> Exit) -> ChildSpec {
    ChildSpec::permanent(move |_ctx| std::future::ready(Ok(Failing(with))))
}

/// Returns which worker an event is about, and with what error.
fn said(event: &Fields) -> (String, String) {
    (event.get("worker").to_owned(), event.get("error").to_owned())
}

fn said_of(worker: &str) -> (String, String) {
    (worker.to_owned(), "the disk is full".to_owned())
}

#[tokio::test(start_paused = true)]
async fn workers_that_fail_while_the_runner_stops_are_logged() -> TestResult {
    let mut events = Events::catch();
    let (runner, workers) = run()?;
    for name in ["a", "b"] {
        workers.start(name, failing(Exit::failed)).await?;
        workers.running(name).await?;
    }

    clean_kill(runner).await?;

    let logged = events.caught("a worker that was told to stop failed");
    let mut logged: Vec<_> = logged.iter().map(said).collect();
    logged.sort();
    assert_eq!(logged, [said_of("a"), said_of("b")]);
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_failure_that_races_with_a_bounce_is_logged_and_reported() -> TestResult {
    let mut events = Events::catch();
    let (runner, workers) = run()?;
    workers.start("a", failing(Exit::failed)).await?;
    workers.running("a").await?;

    workers.bounce("a").await?;

    let logged = guarded(events.next("a worker that was told to stop failed")).await;
    assert_eq!(said(&logged), said_of("a"));
    let report = workers.report().await;
    let worker = &report.workers["a"];
    assert_eq!(worker.error.as_ref().map(|error| error.text.as_str()), Some("the disk is full"));
    assert_eq!(worker.failures, 0, "a bounce is no failure");
    Ok(clean_kill(runner).await?)
}

#[tokio::test(start_paused = true)]
async fn fatal_ends_after_the_first_are_logged() -> TestResult {
    let mut events = Events::catch();
    let (mut runner, workers) = run()?;
    workers.start("later", failing(Exit::fatal)).await?;
    workers.running("later").await?;
    let first = |_ctx| async { Err::<Idle, _>(Exit::fatal("of another version")) };

    workers.start("first", ChildSpec::temporary(first)).await?;
    let ended = runner.ended().await?.unwrap_err();

    assert_eq!(ended.to_string(), "of another version");
    let logged = guarded(events.next("a worker failed fatally")).await;
    assert_eq!(said(&logged), ("first".to_owned(), "of another version".to_owned()));
    let logged = guarded(events.next("another worker failed fatally")).await;
    assert_eq!(said(&logged), said_of("later"));
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_temporary_worker_that_fails_is_logged() -> TestResult {
    let mut events = Events::catch();
    let (runner, workers) = run()?;
    let start = |_ctx| async { Err::<Idle, _>(Exit::failed("the disk is full")) };

    let ended = workers.start("a", ChildSpec::temporary(start)).await?.ended().await;

    assert!(matches!(ended, Ending::Failed(_)));
    let logged = guarded(events.next("a worker failed")).await;
    assert_eq!(said(&logged), said_of("a"));
    Ok(clean_kill(runner).await?)
}

#[tokio::test(start_paused = true)]
async fn a_worker_that_is_dropped_at_its_grace_is_logged() -> TestResult {
    let mut events = Events::catch();
    let (runner, workers) = run()?;
    workers.start("deaf", deaf()).await?;
    workers.running("deaf").await?;

    workers.stop("deaf").await?;

    let logged = guarded(events.next("a worker did not end in time; its future is dropped")).await;
    assert_eq!((logged.get("worker"), logged.get("grace")), ("deaf", "30s"));
    Ok(clean_kill(runner).await?)
}
