//! Workers that are dropped without another poll, though their stop wakes them.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::sync::mpsc;
use std::task::{Context as TaskContext, Poll, Wake, Waker};

use crankcase_engine::{Change, Context, Engine, Manifold, Stop};
use crankcase_testing::{clean_kill, test_engine};
use parking_lot::Mutex;
use tokio::runtime::Runtime;
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

use crate::threads::WorkerRuntime;
use crate::{A, Idle, TestResult};

/// Passes a wake-up on, and returns when the woken worker was polled or dropped.
struct HoldingWaker {
    woken: Waker,
    next: Mutex<mpsc::Receiver<()>>,
}

impl Wake for HoldingWaker {
    fn wake(self: Arc<Self>) {
        self.woken.wake_by_ref();
        self.next.lock().recv().ok();
    }
}

/// Tells the test and the [`HoldingWaker`] when a worker is polled once more or dropped.
struct Watched {
    seen: mpsc::Sender<&'static str>,
    next: mpsc::Sender<()>,
}

impl Watched {
    fn say(&self, event: &'static str) {
        self.seen.send(event).ok();
        self.next.send(()).ok();
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        self.say("dropped");
    }
}

/// Waits for the stop with a [`HoldingWaker`]. Sends "polled" if it is polled after the stop, and "dropped" when it is
/// dropped.
async fn held(stop: Stop, seen: mpsc::Sender<&'static str>) {
    let (sender, next) = mpsc::channel();
    let (watched, mut next) = (Watched { seen, next: sender }, Some(next));
    let mut stopped = pin!(stop.wait());
    poll_fn(|cx| {
        let Some(next) = next.take() else {
            watched.say("polled");
            return Poll::Pending;
        };
        let waker = HoldingWaker { woken: cx.waker().clone(), next: Mutex::new(next) };
        stopped.as_mut().poll(&mut TaskContext::from_waker(&Arc::new(waker).into()))
    })
    .await;
}

/// Runs an engine with workers on another thread, until a worker of the manifold waits for its stop, and returns the
/// engine.
fn waiting(
    (driver, workers): (&Runtime, &WorkerRuntime),
    manifold: Manifold,
    mut begun: UnboundedReceiver<()>,
) -> Result<Engine, Box<dyn std::error::Error>> {
    let handle = workers.handle()?;
    let engine = driver.block_on(async {
        let engine = test_engine().workers_on(handle.clone()).build()?;
        engine.install(A, manifold).await?;
        begun.recv().await.ok_or("no worker")?;
        Ok::<_, Box<dyn std::error::Error>>(engine)
    })?;
    // On the one thread this comes after the poll that has begun.
    driver.block_on(handle.spawn(async {}))?;
    Ok(engine)
}

#[test]
fn a_worker_of_an_engine_whose_runtime_is_dropped_is_polled_no_more() -> TestResult {
    let mut builder = tokio::runtime::Builder::new_current_thread();
    let (driver, workers) = (builder.enable_all().build()?, WorkerRuntime::new(1)?);
    let ((seen, events), (begins, begun)) = (mpsc::channel(), unbounded_channel());
    let manifold = Manifold::builder().offers::<(u32,)>().run(move |(), up| {
        let (seen, begins) = (seen.clone(), begins.clone());
        async move {
            let stop = up.ready((1,));
            begins.send(()).ok();
            held(stop, seen).await;
            Ok(())
        }
    });
    let _engine = waiting((&driver, &workers), manifold, begun)?;

    drop(driver);

    assert_eq!(events.recv()?, "dropped");
    Ok(())
}

#[test]
fn a_start_that_is_told_to_stop_is_polled_no_more() -> TestResult {
    let mut builder = tokio::runtime::Builder::new_current_thread();
    let (driver, workers) = (builder.enable_all().build()?, WorkerRuntime::new(1)?);
    let ((seen, events), (begins, begun)) = (mpsc::channel(), unbounded_channel());
    let start = move |(), ctx: Context| {
        let (seen, begins) = (seen.clone(), begins.clone());
        async move {
            begins.send(()).ok();
            held(ctx.stop().clone(), seen).await;
            Ok(Idle)
        }
    };
    let manifold = Manifold::builder().start(start).output(|_| 1_u32).build();
    let engine = waiting((&driver, &workers), manifold, begun)?;

    driver.block_on(engine.apply(Change::new().park(A)))?;

    assert_eq!(events.recv()?, "dropped");
    Ok(driver.block_on(clean_kill(engine))?)
}
