//! Workers that report of themselves, in time or not.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use crankcase_engine::owner::Reporter;
use crankcase_engine::{Detail, Manifold, Name, Report};
use crankcase_testing::{clean_kill, test_engine, test_policy};
use serde_json::json;
use tokio::runtime::Handle;
use tokio::sync::{Notify, mpsc};
use tokio::time::Instant;

use crate::reporter_callers::{LIMIT, block_on};
use crate::threads::SHORT;
use crate::{A, B, Idle, TestResult};

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
    engine.running(A).await?;
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
    engine.running(A).await?;
    engine.running(B).await?;
    let began = Instant::now();

    engine.report().await;

    assert_eq!(began.elapsed(), quick);
    Ok(clean_kill(engine).await?)
}

#[tokio::test(start_paused = true)]
async fn a_reporter_is_asked_no_second_time_while_it_owes_an_answer() -> TestResult {
    let engine = test_engine().build()?;
    engine.install(A, reporting_after(Duration::from_secs(60))).await?;
    engine.running(A).await?;
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
    engine.running(A).await?;
    engine.report().await;
    tokio::time::sleep(Duration::from_secs(2)).await;

    let report = engine.report().await;

    let reporter = report.workers["a"].reporter.as_deref();
    assert_eq!(reporter, Some("no answer within 1s"));
    Ok(clean_kill(engine).await?)
}

/// Returns a manifold whose reporter tells of each call, and answers after `delay` with what `state`
/// was at the call.
fn reporting(
    state: &Arc<AtomicU32>,
    called: mpsc::UnboundedSender<()>,
    delay: Duration,
) -> Manifold {
    let state = Arc::clone(state);
    let reporter = move || {
        let seen = state.load(Ordering::Relaxed);
        let _ = called.send(());
        async move {
            tokio::time::sleep(delay).await;
            json!(seen)
        }
    };
    Manifold::builder()
        .start(|(), _ctx| async { Ok(Idle) })
        .output(|_| 1_u32)
        .report(move |_| reporter.clone())
        .build()
}

#[tokio::test(start_paused = true)]
async fn reports_that_are_asked_for_meanwhile_share_the_next_answer() -> TestResult {
    let engine = test_engine().build()?;
    let (state, (called, mut calls)) = (Arc::new(AtomicU32::new(1)), mpsc::unbounded_channel());
    engine.install(A, reporting(&state, called, Duration::from_millis(100))).await?;
    engine.running(A).await?;

    let meanwhile = async {
        calls.recv().await;
        state.store(2, Ordering::Relaxed);
        tokio::join!(engine.report(), engine.report())
    };
    let (first, (second, third)) = tokio::join!(engine.report(), meanwhile);

    let own = |report: Report| report.workers["a"].report.clone();
    assert_eq!(own(first), Some(json!(1).into()));
    assert_eq!((own(second), own(third)), (Some(json!(2).into()), Some(json!(2).into())));
    calls.recv().await.ok_or("it was not asked again")?;
    assert!(calls.is_empty());
    Ok(clean_kill(engine).await?)
}

#[tokio::test(start_paused = true)]
async fn a_caller_whose_time_is_over_takes_no_time_from_others() -> TestResult {
    let engine = test_engine().build()?;
    engine.install(A, reporting_after(Duration::from_secs(60))).await?;
    engine.running(A).await?;
    let short = LIMIT / 10;

    for (limit, expected) in [(LIMIT, "no answer within 810ms"), (short, "no answer within 900ms")]
    {
        let reporter = Reporter::new(engine.reporter(), None);
        let ask = |limit| reporter.ask(limit, LIMIT, &Handle::current());
        let (_over, asked) = (ask(short), ask(limit));
        // The time of the callers with the short limit is over before the reporter's task runs.
        tokio::time::advance(short).await;

        let Detail::Engine(report) = asked.await? else { return Err("no engine's report".into()) };

        assert_eq!(report.workers["a"].reporter.as_deref(), Some(expected));
        // The worker's own reporter answers before the next round.
        tokio::time::sleep(Duration::from_secs(60)).await;
    }
    Ok(clean_kill(engine).await?)
}

#[tokio::test(start_paused = true)]
async fn a_reporter_that_asks_itself_is_refused() -> TestResult {
    let engine = test_engine().build()?;
    let asking = engine.clone();
    let reporter = move || {
        let asking = asking.clone();
        async move { json!(asking.report().await.workers["a"].reporter) }
    };
    let manifold = Manifold::builder().start(|(), _ctx| async { Ok(Idle) });
    let manifold = manifold.output(|_| 1_u32).report(move |_| reporter.clone());
    engine.install(A, manifold.build()).await?;
    engine.running(A).await?;

    let report = engine.report().await;

    let expected = json!("has not answered an earlier request");
    assert_eq!(report.workers["a"].report, Some(expected.into()));
    Ok(clean_kill(engine).await?)
}

#[tokio::test(start_paused = true)]
async fn a_reporter_that_was_replaced_when_the_worker_came_up_keeps_it_from_nothing() -> TestResult
{
    let engine = test_engine().build()?;
    let go = Arc::new(Notify::new());
    let came = Arc::clone(&go);
    let start = move |(), ctx: crankcase_engine::Context| {
        let came = Arc::clone(&came);
        async move {
            ctx.report(std::future::pending::<serde_json::Value>);
            came.notified().await;
            Ok(Idle)
        }
    };
    let manifold = Manifold::builder().start(start).output(|_| 1_u32);
    engine.install(A, manifold.report(|_| async || json!(2)).build()).await?;
    assert_eq!(engine.report().await.workers["a"].report, None);
    go.notify_one();
    engine.running(A).await?;

    assert_eq!(engine.report().await.workers["a"].report, Some(json!(2).into()));
    Ok(clean_kill(engine).await?)
}

#[tokio::test(start_paused = true)]
async fn silent_reporters_with_different_deadlines_are_waited_for_at_the_same_time() -> TestResult {
    let engine = test_engine().build()?;
    let late = || reporting_after(Duration::from_secs(60));
    engine.install(A, late().report_deadline(Duration::from_millis(600))).await?;
    engine.install(B, late().report_deadline(Duration::from_millis(700))).await?;
    engine.running(A).await?;
    engine.running(B).await?;
    let began = Instant::now();

    engine.report().await;

    assert_eq!(began.elapsed(), Duration::from_millis(700));
    Ok(clean_kill(engine).await?)
}

#[tokio::test(start_paused = true)]
async fn a_workers_own_report_is_in_the_report() -> TestResult {
    let engine = test_engine().build()?;
    engine.install(A, reporting_after(Duration::ZERO)).await?;
    engine.running(A).await?;

    let report = engine.report().await;

    let expected = Detail::Value(serde_json::json!({ "late_by": 0 }));
    assert_eq!(report.workers["a"].report, Some(expected));
    Ok(clean_kill(engine).await?)
}

// On a real clock: one of them is a thread, which a paused clock would not wait for.
#[tokio::test]
async fn workers_that_are_functions_report_of_themselves_once_they_are_up() -> TestResult {
    let policy = test_policy().report_deadline(Duration::from_secs(3600));
    let engine = test_engine().policy(policy).build()?;
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
    engine.running(thread.clone()).await?;

    let starting = engine.report().await;
    go.notify_one();
    engine.running(Name::<()>::new("closure")).await?;
    let up = engine.report().await;

    assert_eq!(starting.workers["closure"].report, None);
    assert_eq!(up.workers["closure"].report, Some(json!({ "seen": 3 }).into()));
    assert_eq!(up.workers["thread"].report, Some(json!("a thread").into()));
    Ok(clean_kill(engine).await?)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn reporters_are_asked_by_a_thread_without_a_runtime_too() -> TestResult {
    let engine = test_engine().build()?;
    let hour = Duration::from_secs(3600);
    engine.install(A, reporting_after(Duration::ZERO).report_deadline(hour)).await?;
    engine.install(B, reporting_after(hour).report_deadline(SHORT)).await?;
    engine.running(A).await?;
    engine.running(B).await?;

    let asking = engine.clone();
    let thread = std::thread::spawn(move || block_on(asking.report()));
    let report = tokio::task::spawn_blocking(|| thread.join()).await?;

    let report = report.map_err(|_| "the thread panicked")?;
    assert_eq!(report.workers["a"].report, Some(json!({ "late_by": 0 }).into()));
    assert_eq!(report.workers["b"].reporter.as_deref(), Some("no answer within 20ms"));
    Ok(clean_kill(engine).await?)
}
