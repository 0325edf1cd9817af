//! Callers of a reporter, in time or not.

use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::Thread;
use std::time::Duration;

use crankcase_engine::Detail;
use crankcase_engine::owner::{Reporter, ReporterError};
use parking_lot::Mutex;
use serde_json::json;
use tokio::runtime::Handle;
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout};

use crate::TestResult;

/// How long a caller waits.
pub(crate) const LIMIT: Duration = Duration::from_secs(1);

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
pub(crate) fn block_on<F: Future>(future: F) -> F::Output {
    let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
    let mut future = pin!(future);
    loop {
        match future.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(output) => return output,
            Poll::Pending => std::thread::park(),
        }
    }
}
