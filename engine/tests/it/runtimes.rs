//! Engines that lose their runtime, or that of their workers.

use std::future::{poll_fn, ready};
use std::pin::pin;
use std::sync::Arc;
use std::sync::mpsc;
use std::task::{Context as TaskContext, Wake, Waker};
use std::time::Duration;

use crankcase_engine::{ChangeError, EndKind, Engine, EventKind, Manifold, Name, Policy, Stop};
use crankcase_testing::{EventRecorder, Journal, Script, test_engine, test_policy};
use tokio::sync::mpsc::unbounded_channel;

use crate::blocking::deaf;
use crate::threads::{SHORT, WorkerRuntime};
use crate::{A, B, Idle, TestResult};

/// Runs an engine of one worker, drops the runtime, and returns what the worker did.
fn done_when_dropped(
    mut builder: tokio::runtime::Builder,
) -> Result<Journal, Box<dyn std::error::Error>> {
    let (runtime, journal) = (builder.enable_all().build()?, Journal::new());
    let (waits, mut waiting) = unbounded_channel();
    let notes = journal.clone();
    let manifold = Manifold::builder().offers::<(u32,)>().run(move |(), up| {
        let (notes, waits) = (notes.clone(), waits.clone());
        async move {
            notes.note("start a");
            let stop = up.ready((1,));
            let mut stopped = pin!(stop.wait());
            // A poll that has begun goes on, and would see the stop. So none of its steps is left.
            poll_fn(|cx| {
                let poll = stopped.as_mut().poll(cx);
                waits.send(()).ok();
                poll
            })
            .await;
            notes.note("stop a");
            Ok(())
        }
    });
    let engine = runtime.block_on(async {
        let backoff = crankcase_engine::Backoff::none();
        let engine = Engine::builder()
            .policy(Policy::default().backoff(backoff).bounce_delay(Duration::ZERO))
            .build()?;
        engine.install(A, manifold).await?;
        waiting.recv().await.ok_or("no worker")?;
        Ok::<_, Box<dyn std::error::Error>>(engine)
    })?;

    drop(runtime);

    let other = tokio::runtime::Builder::new_current_thread().build()?;
    let error = other.block_on(engine.wait()).err().ok_or("it ended well")?;
    assert_eq!(error.to_string(), "the runtime of engine / was shut down");
    Ok(journal)
}

#[test]
fn an_engine_whose_runtime_is_dropped_restarts_nothing() -> TestResult {
    let alone = done_when_dropped(tokio::runtime::Builder::new_current_thread())?;
    let mut threads = tokio::runtime::Builder::new_multi_thread();
    threads.worker_threads(2);
    let beside = done_when_dropped(threads)?;

    assert_eq!(alone.lines(), ["start a"]);
    assert_eq!(beside.lines(), ["start a"]);
    Ok(())
}

/// Panics when it is woken.
struct BadWaker;

impl Wake for BadWaker {
    fn wake(self: Arc<Self>) {
        panic!("woken");
    }
}

#[test]
fn an_engine_whose_runtime_is_dropped_tells_everyone_though_wakers_panic() -> TestResult {
    let mut builder = tokio::runtime::Builder::new_current_thread();
    let (driver, workers) = (builder.enable_all().build()?, WorkerRuntime::new(1)?);
    let (stops, mut given) = unbounded_channel();
    let lent = Manifold::builder().offers::<(u32,)>().run(move |(), up| {
        let stop = up.ready((1,));
        stops.send(stop.clone()).ok();
        async move {
            stop.wait().await;
            Ok(())
        }
    });
    let (engine, stops) = driver.block_on(async {
        let engine = test_engine().workers_on(workers.handle()?).build()?;
        engine.install(A, lent.clone()).await?;
        engine.install(B, lent).await?;
        let first = given.recv().await.ok_or("no worker")?;
        let stops = [first, given.recv().await.ok_or("no other worker")?];
        // Nobody settles while it is being started.
        let held = Script::new();
        held.hold_start();
        engine.install(Name::<u32>::new("held"), held.manifold(())).await?;
        held.held().await?;
        Ok::<_, Box<dyn std::error::Error>>((engine, stops))
    })?;
    let waker = Waker::from(Arc::new(BadWaker));
    let mut cx = TaskContext::from_waker(&waker);
    let mut waits = stops.each_ref().map(|stop| Box::pin(stop.wait()));
    for wait in &mut waits {
        assert!(wait.as_mut().poll(&mut cx).is_pending());
    }
    let mut others = [(); 2].map(|()| Box::pin(engine.settled()));
    for other in &mut others {
        let _in_driver = driver.enter();
        assert!(other.as_mut().poll(&mut cx).is_pending());
    }
    let mut asked = pin!(engine.report());
    assert!(asked.as_mut().poll(&mut cx).is_pending());

    drop(driver);

    assert!(stops.iter().all(Stop::is_stopped));
    let other = tokio::runtime::Builder::new_current_thread().build()?;
    let error = other.block_on(engine.wait()).err().ok_or("it ended well")?;
    assert_eq!(error.to_string(), "the runtime of engine / was shut down");
    for settled in others {
        assert_eq!(other.block_on(settled), Err(ChangeError::Stopped));
    }
    Ok(())
}

#[tokio::test]
async fn an_engine_whose_workers_runtime_is_gone_ends_with_an_error() -> TestResult {
    let workers = WorkerRuntime::new(1)?;
    let backoff = crankcase_engine::Backoff::none();
    let engine = test_engine().policy(test_policy().backoff(backoff).bounce_delay(Duration::ZERO));
    let engine = engine.workers_on(workers.handle()?).build()?;
    let journal = Journal::new();
    engine.install(A, journal.manifold(())).await?;
    engine.running(A).await?;

    drop(workers);
    let error = engine.wait().await.err().ok_or("it ended well")?;

    assert_eq!(error.to_string(), "the runtime of engine / was shut down");
    assert_eq!(journal.starts("a"), 1);
    Ok(())
}

fn was_dropped(kind: &EventKind) -> bool {
    matches!(kind, EventKind::Ended { end: EndKind::Dropped, .. })
}

/// Returns an engine whose workers' runtime has gone, as its events have told, and which does not end
/// before its kill deadline unless the sender is dropped.
async fn lost_workers()
-> Result<(Engine, EventRecorder, mpsc::Sender<()>), Box<dyn std::error::Error>> {
    let workers = WorkerRuntime::new(1)?;
    let engine = test_engine().workers_on(workers.handle()?).kill_deadline(SHORT).build()?;
    let mut events = EventRecorder::new(&engine);
    // It keeps the engine from ending at once.
    let (deaf, release) = deaf();
    engine.install(A, deaf.grace(Duration::from_secs(3600))).await?;
    engine.install(B, Script::new().manifold(())).await?;
    engine.running(A).await?;
    engine.running(B).await?;

    drop(workers);
    events.wait_for_kind("/b", was_dropped).await?;
    Ok((engine, events, release))
}

#[tokio::test]
async fn an_engine_whose_workers_runtime_is_gone_says_that_it_stops() -> TestResult {
    let (engine, mut events, release) = lost_workers().await?;

    let is_stopping = tokio::select! {
        biased;
        () = engine.stopping() => true,
        () = ready(()) => false,
    };

    assert!(is_stopping);
    assert_eq!(engine.output(Name::<u32>::new("c")).await, Err(ChangeError::Stopped));
    events.wait_for(|event| event.kind == EventKind::Killed).await?;
    assert!(engine.wait().await.is_err());
    drop(release);
    Ok(())
}

#[tokio::test]
async fn an_engine_whose_workers_runtime_is_gone_keeps_its_kill_deadline() -> TestResult {
    let (engine, _events, release) = lost_workers().await?;

    let error = engine.stop().await.err().ok_or("it ended well")?;

    assert_eq!(error.to_string(), "the runtime of engine / was shut down");
    assert_eq!(engine.report().await.left_behind, ["/a"]);
    drop(release);
    Ok(())
}

/// Panics when it is dropped.
#[derive(Clone)]
struct Bomb;

impl Drop for Bomb {
    fn drop(&mut self) {
        assert!(std::thread::panicking(), "dropped");
    }
}

#[tokio::test]
async fn a_value_whose_drop_panics_harms_no_engine_whose_workers_runtime_is_gone() -> TestResult {
    const BOMB: Name<Bomb> = Name::new("bomb");
    let workers = WorkerRuntime::new(1)?;
    let engine = test_engine().workers_on(workers.handle()?).build()?;
    let bomb = Manifold::builder().start(|(), _| async { Ok(Idle) }).output(|_| Bomb).build();
    engine.install(BOMB, bomb).await?;
    engine.running(BOMB).await?;

    drop(workers);
    let error = engine.wait().await.err().ok_or("it ended well")?;

    assert_eq!(error.to_string(), "the runtime of engine / was shut down");
    assert_eq!(engine.report().await.workers["bomb"].starts, 1);
    Ok(())
}
