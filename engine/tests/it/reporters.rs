//! Workers that report of themselves, in time or not.

use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::Thread;
use std::time::Duration;

use crankcase_engine::{Detail, Manifold, Name};
use crankcase_testing::{clean_kill, test_engine};
use serde_json::json;
use tokio::sync::Notify;
use tokio::time::Instant;

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

/// Wakes a thread that is parked.
struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// Runs a future on this thread, which has no runtime.
fn block_on<F: Future>(future: F) -> F::Output {
    let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
    let mut future = pin!(future);
    loop {
        match future.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(output) => return output,
            Poll::Pending => std::thread::park(),
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn reporters_are_asked_by_a_thread_without_a_runtime_too() -> TestResult {
    let engine = test_engine().build()?;
    engine.install(A, reporting_after(Duration::ZERO)).await?;
    let silent = reporting_after(Duration::from_secs(3600));
    engine.install(B, silent.report_deadline(SHORT)).await?;
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
