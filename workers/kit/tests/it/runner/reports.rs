//! What a runner says of its workers, and they of themselves.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use crankcase_testing::{Bare, clean_kill};
use crankcase_workers::{ChildContext, ChildSpec, Runner, RunnerConfig};
use tokio::sync::{Notify, watch};
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::{Idle, policy, run};
use crate::running::{TestResult, guarded};

#[tokio::test(start_paused = true)]
async fn a_report_has_the_workers_own_reports() -> TestResult {
    let (runner, workers) = run()?;
    let reporting = |ctx: ChildContext| async move {
        ctx.report(|| async { serde_json::json!({ "beats": 7 }) });
        Ok(Idle)
    };
    let silent = |ctx: ChildContext| async move {
        ctx.report(std::future::pending::<serde_json::Value>);
        Ok(Idle)
    };
    let falling = |ctx: ChildContext| async move {
        ctx.report(|| -> std::future::Ready<serde_json::Value> { panic!("no report") });
        Ok(Idle)
    };
    workers.start("a", ChildSpec::permanent(reporting)).await?;
    workers.start("b", ChildSpec::permanent(silent)).await?;
    workers.start("c", ChildSpec::permanent(falling)).await?;
    for name in ["a", "b", "c"] {
        workers.running(name).await?;
    }
    let began = Instant::now();

    let report = serde_json::to_value(workers.report().await)?;

    assert_eq!(began.elapsed(), Duration::from_secs(1));
    assert_eq!(report["workers"]["a"]["report"]["beats"], 7);
    assert_eq!(report["workers"]["b"]["reporter"], "no answer within 1s");
    assert_eq!(report["workers"]["c"]["reporter"], "panicked: no report");
    Ok(clean_kill(runner).await?)
}

#[tokio::test(start_paused = true)]
async fn a_report_that_is_asked_for_meanwhile_has_the_next_answer() -> TestResult {
    let (runner, workers) = run()?;
    let begun = Arc::new(Notify::new());
    let began = Arc::clone(&begun);
    let slow = move |ctx: ChildContext| {
        let began = Arc::clone(&began);
        async move {
            ctx.report(move || {
                began.notify_one();
                async {
                    tokio::time::sleep(Duration::from_millis(100)).await;
                    serde_json::json!({ "beats": 7 })
                }
            });
            Ok(Idle)
        }
    };
    workers.start("a", ChildSpec::permanent(slow)).await?;
    workers.running("a").await?;
    let meanwhile = async {
        begun.notified().await;
        workers.report().await
    };

    let (first, second) = tokio::join!(workers.report(), meanwhile);

    for report in [first, second] {
        assert_eq!(serde_json::to_value(report)?["workers"]["a"]["report"]["beats"], 7);
    }
    Ok(clean_kill(runner).await?)
}

#[tokio::test(start_paused = true)]
async fn a_reporter_that_owes_an_answer_is_asked_no_second_time() -> TestResult {
    let (runner, workers) = run()?;
    let asked = Arc::<AtomicUsize>::default();
    let count = Arc::clone(&asked);
    let silent = move |ctx: ChildContext| {
        let count = Arc::clone(&count);
        async move {
            ctx.report(move || {
                count.fetch_add(1, Ordering::AcqRel);
                std::future::pending::<serde_json::Value>()
            });
            Ok(Idle)
        }
    };
    workers.start("a", ChildSpec::permanent(silent)).await?;
    workers.running("a").await?;
    workers.report().await;
    let began = Instant::now();

    let report = serde_json::to_value(workers.report().await)?;

    assert_eq!(report["workers"]["a"]["reporter"], "has not answered an earlier request");
    assert_eq!((asked.load(Ordering::Acquire), began.elapsed()), (1, Duration::ZERO));
    // The reporter of the next worker owes nothing.
    workers.bounce("a").await?;
    workers.running("a").await?;
    workers.report().await;
    assert_eq!(asked.load(Ordering::Acquire), 2);
    Ok(clean_kill(runner).await?)
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_is_owed_is_dropped_with_its_worker() -> TestResult {
    owed_until_the_end(true).await
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_is_owed_is_dropped_with_the_runner() -> TestResult {
    owed_until_the_end(false).await
}

/// Asks for an answer that never comes, and has its worker end: alone, or with the runner.
async fn owed_until_the_end(is_stopped: bool) -> TestResult {
    let (runner, workers) = run()?;
    let answers = Arc::new(watch::Sender::new(()));
    let owed = Arc::clone(&answers);
    let silent = move |ctx: ChildContext| {
        let owed = owed.subscribe();
        async move {
            ctx.report(move || {
                let owed = owed.clone();
                async move {
                    let answer = std::future::pending::<serde_json::Value>().await;
                    drop(owed);
                    answer
                }
            });
            Ok(Idle)
        }
    };
    workers.start("a", ChildSpec::temporary(silent)).await?;
    workers.running("a").await?;
    workers.report().await;

    if is_stopped {
        workers.stop("a").await?;
    }
    drop(runner);

    guarded(answers.closed()).await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_worker_is_not_gone_before_its_reporter_is() -> TestResult {
    let runner = Runner::new(RunnerConfig::default().policy(policy()))?;
    let workers = runner.handle();
    let runner = Bare::run(runner);
    let begun = Arc::new(Notify::new());
    let (release, held) = std::sync::mpsc::channel::<()>();
    let (began, held) = (Arc::clone(&begun), Arc::new(parking_lot::Mutex::new(held)));
    let blocking = move |ctx: ChildContext| {
        let (began, held) = (Arc::clone(&began), Arc::clone(&held));
        async move {
            ctx.report(move || {
                began.notify_one();
                // Until the sender is dropped.
                let _released = held.lock().recv();
                std::future::ready(serde_json::Value::Null)
            });
            Ok(Idle)
        }
    };
    workers.start("a", ChildSpec::permanent(blocking)).await?;
    workers.running("a").await?;
    let stopping = workers.clone();
    let stopping = async move {
        let mut stop = Box::pin(stopping.stop("a"));
        // The other thread is blocked by the reporter, so each turn of this task runs all that is ready.
        for _ in 0..1_000 {
            tokio::select! {
                biased;
                _ = &mut stop => return Err("it was gone"),
                () = tokio::task::yield_now() => {}
            }
        }
        drop(release);
        Ok(stop.await)
    };

    let mut tasks = JoinSet::new();
    let begin = async {
        begun.notified().await;
        // From here, because the blocked thread would keep a task that it has woken.
        tasks.spawn(stopping);
    };
    let _report = guarded(async { tokio::join!(workers.report(), begin) }).await;

    let stopped = guarded(tasks.join_next()).await.ok_or("there is no task")?;
    stopped???;
    Ok(clean_kill(runner).await?)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reporter_that_blocks_its_thread_does_not_hold_up_the_report() -> TestResult {
    let policy = policy().report_deadline(Duration::from_millis(1));
    let runner = Runner::new(RunnerConfig::default().policy(policy))?;
    let workers = runner.handle();
    let runner = Bare::run(runner);
    let (release, held) = std::sync::mpsc::channel::<()>();
    let held = Arc::new(parking_lot::Mutex::new(held));
    let blocking = move |ctx: ChildContext| {
        let held = Arc::clone(&held);
        async move {
            ctx.report(move || {
                // Until the sender is dropped.
                let _released = held.lock().recv();
                std::future::ready(serde_json::Value::Null)
            });
            Ok(Idle)
        }
    };
    workers.start("a", ChildSpec::permanent(blocking)).await?;
    workers.running("a").await?;

    let report = serde_json::to_value(guarded(workers.report()).await)?;

    assert_eq!(report["workers"]["a"]["reporter"], "no answer within 1ms");
    drop(release);
    Ok(clean_kill(runner).await?)
}
