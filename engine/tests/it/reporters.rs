//! Workers that report of themselves, in time or not.

use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::Thread;
use std::time::Duration;

use crankcase_engine::owner::{Reporter, ReporterError};
use crankcase_engine::{Detail, Manifold, Name, Report};
use crankcase_testing::{clean_kill, test_engine, test_policy};
use parking_lot::Mutex;
use serde_json::json;
use tokio::runtime::Handle;
use tokio::sync::{Notify, mpsc};
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout};

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

const LIMIT: Duration = Duration::from_secs(1);

/// Returns a reporter that never answers.
fn silent() -> Arc<Reporter> {
    Reporter::new(std::future::pending::<serde_json::Value>, None)
}

#[tokio::test(start_paused = true)]
async fn no_caller_waits_for_a_reporter_that_was_withdrawn() -> TestResult {
    let reporter = silent();
    let ask = || reporter.ask(LIMIT, LIMIT, &Handle::current());
    let first = ask();
    tokio::task::yield_now().await;
    let queued = ask();
    let began = Instant::now();

    drop(reporter.withdraw());

    for answer in [first, queued, ask()] {
        assert!(matches!(answer.await, Err(ReporterError::Gone)));
    }
    assert_eq!(began.elapsed(), Duration::ZERO);
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_caller_that_asks_when_an_answer_is_late_is_refused() -> TestResult {
    let reporter = silent();
    let ask = || reporter.ask(LIMIT, LIMIT, &Handle::current());
    let first = ask();
    tokio::task::yield_now().await;
    tokio::time::advance(LIMIT - Duration::from_millis(1)).await;
    let mut second = pin!(ask());
    assert!(poll_once(second.as_mut()).is_pending());
    tokio::time::advance(Duration::from_millis(1)).await;

    assert!(matches!(ask().await, Err(ReporterError::Late)));
    assert!(poll_once(second.as_mut()).is_pending());
    drop(first);
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_caller_with_little_time_makes_no_answer_late_for_others() -> TestResult {
    let slow = || async {
        tokio::time::sleep(Duration::from_millis(600)).await;
        json!(1)
    };
    let reporter = Reporter::new(slow, None);
    let ask = || timeout(LIMIT, reporter.ask(LIMIT, LIMIT, &Handle::current()));
    let after = async |millis| {
        tokio::time::sleep(Duration::from_millis(millis)).await;
        ask().await
    };

    // The second call is from 600 ms to 1,200 ms, too long for the second caller.
    let (first, second, third) = tokio::join!(ask(), after(10), after(1_050));

    assert_eq!(first??, json!(1).into());
    assert!(second.is_err());
    assert_eq!(third??, json!(1).into());
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_caller_whose_time_passes_before_the_reporter_runs_gets_its_answer() -> TestResult {
    let reporter = Reporter::new(|| std::future::ready(json!(1)), None);
    let asked = reporter.ask(LIMIT, LIMIT, &Handle::current());

    // The clock advances before the reporter's task runs for the first time.
    tokio::time::advance(LIMIT).await;

    assert_eq!(asked.await?, json!(1).into());
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_caller_whose_time_passes_while_others_are_answered_gets_the_next_answer() -> TestResult {
    let slow = || async {
        tokio::time::sleep(2 * LIMIT).await;
        json!(1)
    };
    let reporter = Reporter::new(slow, None);
    let ask = || reporter.ask(LIMIT, LIMIT, &Handle::current());
    let first = ask();
    tokio::task::yield_now().await;
    let second = ask();

    let (first, second) = tokio::join!(first, second);

    assert_eq!((first?, second?), (json!(1).into(), json!(1).into()));
    Ok(())
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
async fn no_answer_is_made_for_callers_that_have_left() -> TestResult {
    let calls = Arc::new(AtomicU32::new(0));
    let counted = Arc::clone(&calls);
    let report = move || {
        counted.fetch_add(1, Ordering::Relaxed);
        async {
            tokio::task::yield_now().await;
            json!(1)
        }
    };
    let reporter = Reporter::new(report, None);
    let ask = || reporter.ask(LIMIT, LIMIT, &Handle::current());
    let first = ask();
    tokio::task::yield_now().await;
    drop(ask());

    first.await?;
    tokio::task::yield_now().await;

    assert_eq!(calls.load(Ordering::Relaxed), 1);
    Ok(())
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

#[test]
fn no_caller_waits_for_a_runtime_that_is_gone() -> TestResult {
    let reporter = silent();
    let runtime = tokio::runtime::Builder::new_current_thread().build()?;
    let handle = runtime.handle().clone();
    drop(runtime);

    for _ in 0..2 {
        assert!(matches!(block_on(reporter.ask(LIMIT, LIMIT, &handle)), Err(ReporterError::Gone)));
    }
    Ok(())
}

/// Asks again when it is woken, and then panics.
struct AskAgain {
    reporter: Arc<Reporter>,
    runtime: Handle,
    asked: Mutex<Option<Answer>>,
}

type Answer = Pin<Box<dyn Future<Output = Result<Detail, ReporterError>> + Send>>;

impl Wake for AskAgain {
    fn wake(self: Arc<Self>) {
        *self.asked.lock() = Some(Box::pin(self.reporter.ask(LIMIT, LIMIT, &self.runtime)));
        panic!("a waker that panics");
    }
}

#[tokio::test(start_paused = true)]
async fn a_waker_that_asks_again_and_panics_takes_no_answer_away() -> TestResult {
    let reporter = Reporter::new(|| std::future::ready(json!(1)), None);
    let ask = || reporter.ask(LIMIT, LIMIT, &Handle::current());
    let (mut first, mut second) = (pin!(ask()), pin!(ask()));
    let again = Arc::new(AskAgain {
        reporter: Arc::clone(&reporter),
        runtime: Handle::current(),
        asked: Mutex::default(),
    });
    let waker = Waker::from(Arc::clone(&again));
    assert!(first.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
    assert!(poll_once(second.as_mut()).is_pending());

    assert_eq!(second.await?, json!(1).into());

    let asked = again.asked.lock().take().ok_or("the waker was not woken")?;
    assert_eq!(asked.await?, json!(1).into());
    assert_eq!(first.await?, json!(1).into());
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn callers_on_several_threads_are_all_answered_by_one_call_at_a_time() -> TestResult {
    let (calls, most) = (Arc::new(AtomicU32::new(0)), Arc::new(AtomicU32::new(0)));
    let (now, seen) = (Arc::clone(&calls), Arc::clone(&most));
    let report = move || {
        let (now, seen) = (Arc::clone(&now), Arc::clone(&seen));
        async move {
            seen.fetch_max(now.fetch_add(1, Ordering::AcqRel) + 1, Ordering::AcqRel);
            tokio::task::yield_now().await;
            now.fetch_sub(1, Ordering::AcqRel);
            json!(1)
        }
    };
    let reporter = Reporter::new(report, None);
    let mut callers = JoinSet::new();
    for _ in 0..4 {
        let reporter = Arc::clone(&reporter);
        callers.spawn(async move {
            for _ in 0..10_000 {
                let limit = Duration::from_secs(3600);
                reporter.ask(limit, limit, &Handle::current()).await?;
            }
            Ok::<_, ReporterError>(())
        });
    }
    while let Some(asked) = callers.join_next().await {
        asked??;
    }
    assert_eq!(most.load(Ordering::Acquire), 1);
    Ok(())
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

/// Wakes a thread that is parked.
struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

fn poll_once<F: Future>(future: Pin<&mut F>) -> Poll<F::Output> {
    future.poll(&mut Context::from_waker(Waker::noop()))
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
