//! The last report of an engine, and the ends of reporters.

use std::error::Error;
use std::future::{Future, pending};
use std::pin::pin;
use std::task::{Context, Waker};
use std::time::Duration;

use crankcase_engine::{EngineState, Exit, Manifold, Name, Outcome, Stop, Worker, WorkerState};
use crankcase_testing::{Journal, Script, clean_kill, test_engine};
use tokio::runtime::Builder;
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::{A, B, TestResult, stop_all};

/// Enough for the last report to take a while to be made.
const MANY: usize = 1_000;

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn all_who_ask_for_the_last_report_get_the_same() -> TestResult {
    let (engine, script) = (test_engine().build()?, Script::new());
    for index in 0..MANY {
        engine.install(Name::<u32>::parse(&format!("n{index}"))?, script.manifold(())).await?;
    }
    engine.settled().await?;
    let mut asking = JoinSet::new();
    for asker in 0..16 {
        let engine = engine.clone();
        asking.spawn(async move {
            if asker > 1 {
                // What it answers is another test's.
                engine.wait().await.ok();
                return engine.report().await;
            }
            // Asks on while the engine ends.
            loop {
                let report = engine.report().await;
                if report.state == EngineState::Stopped {
                    return report;
                }
            }
        });
    }

    stop_all(&engine).await?;
    let last = engine.report().await;
    let reports = asking.join_all().await;

    assert_eq!((last.state, last.workers.len()), (EngineState::Stopped, MANY));
    assert!(last.workers.values().all(|worker| worker.starts == 1));
    assert_eq!(reports.len(), 16);
    assert!(reports.iter().all(|report| *report == last));
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn the_last_report_tells_of_each_worker_what_the_one_before_told() -> TestResult {
    let engine = test_engine().build()?;
    let failing = Script::new();
    failing.fail_start(Exit::failed("no disk"));
    engine.install(A, failing.manifold(())).await?;
    engine.install(B, Script::new().manifold(A.optional())).await?;
    engine.install(Name::<u32>::new("c"), Script::new().manifold(()).essential()).await?;
    engine.settled().await?;
    let mut told = engine.report().await.workers;

    stop_all(&engine).await?;
    let last = engine.report().await;

    // What has changed is that two have stopped.
    for name in ["b", "c"] {
        let worker = told.get_mut(name).ok_or("it was not there")?;
        assert_eq!((worker.state, worker.stopped), (WorkerState::Running, None));
        (worker.state, worker.stopped) = (WorkerState::Waiting, Some(last.at));
    }
    assert_eq!(last.workers, told);
    assert!(last.is_healthy && last.left_behind.is_empty());
    Ok(())
}

/// A worker whose reporter never answers, and notes when it and its answer are dropped.
struct Silent(Journal);

impl Worker for Silent {
    async fn run(self, stop: Stop) -> Outcome {
        stop.wait().await;
        Ok(())
    }
}

/// Notes in a journal that it is dropped.
struct Noted(Journal, &'static str);

impl Drop for Noted {
    fn drop(&mut self) {
        self.0.note(self.1);
    }
}

fn silent(journal: &Journal) -> Manifold {
    Manifold::builder()
        .start_with(journal.clone(), |journal, (), _ctx| async move { Ok(Silent(journal)) })
        .output(|_| 1_u32)
        .report(|Silent(journal)| {
            let reporter = Noted(journal.clone(), "reporter dropped");
            move || {
                let answer = Noted(reporter.0.clone(), "answer dropped");
                async move {
                    pending::<()>().await;
                    drop(answer);
                    serde_json::Value::Null
                }
            }
        })
        .build()
}

/// Lets all tasks run that can.
async fn rest() {
    tokio::time::sleep(Duration::from_secs(1)).await;
}

#[tokio::test(start_paused = true)]
async fn a_reporter_that_owes_an_answer_is_dropped_with_its_worker() -> TestResult {
    let (engine, journal) = (test_engine().build()?, Journal::new());
    engine.install(A, silent(&journal)).await?;
    engine.running(A).await?;
    engine.report().await;
    rest().await;
    assert!(journal.lines().is_empty());

    engine.uninstall(A).await?;
    rest().await;

    let mut lines = journal.lines();
    lines.sort();
    assert_eq!(lines, ["answer dropped", "reporter dropped"]);
    Ok(clean_kill(engine).await?)
}

#[tokio::test(start_paused = true)]
async fn a_reporter_is_dropped_with_each_generation() -> TestResult {
    let (engine, journal) = (test_engine().build()?, Journal::new());
    engine.install(A, silent(&journal)).await?;
    engine.running(A).await?;

    engine.bounce(A).await?;
    engine.running(A).await?;

    assert_eq!(journal.lines(), ["reporter dropped"]);
    Ok(clean_kill(engine).await?)
}

#[tokio::test(start_paused = true)]
async fn a_reporter_that_owes_an_answer_is_dropped_when_the_engine_ends() -> TestResult {
    let (engine, journal) = (test_engine().build()?, Journal::new());
    engine.install(A, silent(&journal)).await?;
    engine.running(A).await?;
    engine.report().await;

    clean_kill(engine).await?;
    rest().await;

    let mut lines = journal.lines();
    lines.sort();
    assert_eq!(lines, ["answer dropped", "reporter dropped"]);
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_reporter_that_ends_with_its_worker_is_not_waited_for() -> TestResult {
    let (engine, journal) = (test_engine().build()?, Journal::new());
    engine.install(A, silent(&journal).report_deadline(Duration::from_secs(60))).await?;
    engine.install(B, silent(&journal).report_deadline(Duration::from_secs(2))).await?;
    engine.running(A).await?;
    engine.running(B).await?;
    let began = Instant::now();

    let (report, uninstalled) = tokio::join!(engine.report(), async {
        rest().await;
        engine.uninstall(A).await
    });

    uninstalled?;
    assert_eq!(report.workers["a"].reporter.as_deref(), Some("ended before it answered"));
    assert_eq!(report.workers["b"].reporter.as_deref(), Some("no answer within 2s"));
    assert_eq!(began.elapsed(), Duration::from_secs(2));
    Ok(clean_kill(engine).await?)
}

#[test]
fn a_reporter_is_not_asked_after_its_worker_has_ended() -> TestResult {
    let runtime = Builder::new_current_thread().enable_all().start_paused(true).build()?;
    let (journal, asked) = (Journal::new(), Journal::new());
    let noted = asked.clone();
    let manifold = Manifold::builder()
        .start_with(journal, |journal, (), _ctx| async move { Ok(Silent(journal)) })
        .output(|_| 1_u32)
        .report(move |_| {
            let noted = noted.clone();
            move || {
                noted.note("asked");
                pending::<serde_json::Value>()
            }
        });
    let engine = runtime.block_on(async {
        let engine = test_engine().build()?;
        engine.install(A, manifold.build()).await?;
        engine.running(A).await?;
        Ok::<_, Box<dyn Error>>(engine)
    })?;
    // Asked for from outside the runtime, so that the answer waits while the worker ends.
    let mut report = pin!(engine.report());
    assert!(report.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
    runtime.block_on(engine.ping())?;
    runtime.block_on(async { engine.uninstall(A).await })?;

    let report = runtime.block_on(report);

    assert_eq!(report.workers["a"].reporter.as_deref(), Some("ended before it answered"));
    assert!(asked.lines().is_empty());
    Ok(runtime.block_on(clean_kill(engine.clone()))?)
}
