//! Workers, reporters and drops that never yield or block their thread, on a clock that runs.

use std::sync::Arc;
use std::sync::mpsc;
use std::time::Duration;

use crankcase_engine::{
    Change, ChangeError, Engine, EngineError, EventKind, Manifold, Name, Nested, WorkerState,
};
use crankcase_testing::{EventRecorder, Journal, Script, clean_kill, test_engine, test_policy};
use parking_lot::Mutex;
use tokio::runtime::Runtime;
use tokio::sync::mpsc::unbounded_channel;

use crate::{A, B, Idle, TestResult, state, with_grace};

pub(crate) const SHORT: Duration = Duration::from_millis(20);

/// A runtime for workers alone, whose end does not wait for threads that are still blocked.
pub(crate) struct WorkerRuntime(Option<Runtime>);

impl WorkerRuntime {
    pub(crate) fn new(threads: usize) -> std::io::Result<Self> {
        let mut builder = tokio::runtime::Builder::new_multi_thread();
        builder.worker_threads(threads).enable_all().build().map(|runtime| Self(Some(runtime)))
    }

    pub(crate) fn handle(&self) -> Result<tokio::runtime::Handle, &'static str> {
        self.0.as_ref().map(|runtime| runtime.handle().clone()).ok_or("it is gone")
    }
}

impl Drop for WorkerRuntime {
    fn drop(&mut self) {
        if let Some(runtime) = self.0.take() {
            runtime.shutdown_background();
        }
    }
}

#[tokio::test]
async fn workers_that_never_yield_on_every_thread_are_named_and_left_behind() -> TestResult {
    let workers = WorkerRuntime::new(2)?;
    let engine = test_engine().workers_on(workers.handle()?).policy(with_grace(SHORT)).build()?;
    let scripts = [Script::new(), Script::new()];
    for (name, script) in [A, B].into_iter().zip(&scripts) {
        let manifold = script.manifold(()).grace(SHORT).abort_grace(SHORT);
        engine.install(name.clone(), manifold).await?;
        engine.running(name.clone()).await?;
    }
    scripts.iter().for_each(Script::never_yield);
    scripts[0].blocked().await?;
    scripts[1].blocked().await?;

    let ended = engine.stop().await;

    let report = engine.report().await;
    scripts.iter().for_each(Script::release);
    let text = "workers of engine / did not end in time and were left behind: /a, /b";
    assert_eq!(ended.err().ok_or("it ended well")?.to_string(), text);
    assert_eq!(report.left_behind, ["/a", "/b"]);
    Ok(())
}

#[tokio::test]
async fn a_nested_engine_that_no_thread_is_left_to_drop_holds_a_kill_no_longer_than_a_grace()
-> TestResult {
    const SITE: Name<Engine> = Name::new("site");
    let (workers, script) = (WorkerRuntime::new(1)?, Script::new());
    let engine = test_engine().workers_on(workers.handle()?).build()?;
    engine.install_nested(SITE, Nested::new(Change::new)).await?;
    engine.install(A, script.manifold(())).await?;
    engine.running(SITE).await?;
    engine.running(A).await?;
    script.never_yield();
    script.blocked().await?;
    tokio::time::pause();
    let began = tokio::time::Instant::now();

    let ended = engine.stop().await;

    script.release();
    let text = "workers of engine / did not end in time and were left behind: /a, /site";
    assert_eq!(ended.err().ok_or("it ended well")?.to_string(), text);
    let (grace, abort_grace) = (Duration::from_secs(30), Duration::from_secs(1));
    // In whole seconds, because tokio rounds each sleep up to a millisecond.
    let waited = Duration::from_secs(began.elapsed().as_secs());
    assert_eq!(waited, grace + abort_grace);
    Ok(())
}

#[tokio::test]
async fn an_engine_reports_while_no_worker_yields() -> TestResult {
    let workers = WorkerRuntime::new(1)?;
    let engine = test_engine().workers_on(workers.handle()?).build()?;
    let script = Script::new();
    engine.install(A, script.manifold(()).grace(SHORT).abort_grace(SHORT)).await?;
    engine.running(A).await?;
    script.never_yield();
    script.blocked().await?;
    engine.provide(B, 1).await?;

    let bounced = engine.bounce(A).await;

    let report = engine.report().await;
    script.release();
    engine.running(A).await?;
    assert_eq!(bounced, Err(ChangeError::Stuck { name: "a".to_owned() }));
    assert_eq!(report.left_behind, ["/a"]);
    Ok(clean_kill(engine).await?)
}

#[tokio::test]
async fn a_wait_for_rest_ends_with_the_engine_though_workers_block_all_their_threads() -> TestResult
{
    let (workers, script) = (WorkerRuntime::new(1)?, Script::new());
    let engine = test_engine().workers_on(workers.handle()?).build()?;
    engine.install(A, script.manifold(()).grace(SHORT).abort_grace(SHORT)).await?;
    engine.running(A).await?;
    script.never_yield();
    script.blocked().await?;
    let asking = engine.clone();
    let settled = async move { asking.settled().await };

    let (settled, ended) = tokio::join!(settled, engine.stop());

    script.release();
    assert_eq!(settled, Err(ChangeError::Stopped));
    assert!(matches!(ended, Err(EngineError::LeftBehind { .. })), "{ended:?}");
    Ok(())
}

#[tokio::test]
async fn a_stuck_worker_is_started_again_only_when_it_has_ended() -> TestResult {
    let workers = WorkerRuntime::new(1)?;
    let (engine, script) = (test_engine().workers_on(workers.handle()?).build()?, Script::new());
    let mut events = EventRecorder::new(&engine);
    engine.install(A, script.manifold(()).grace(SHORT).abort_grace(SHORT)).await?;
    engine.running(A).await?;
    script.never_yield();
    script.blocked().await?;

    let asking = engine.clone();
    let bounced = async move { asking.bounce(A).await };
    let released = async {
        events.wait_for_kind("/a", |kind| *kind == EventKind::Stuck).await?;
        assert_eq!(engine.report().await.workers["a"].starts, 1);
        script.release();
        events.wait_for_kind("/a", |kind| *kind == EventKind::Started { generation: 2 }).await
    };
    let (bounced, released) = tokio::join!(bounced, released);

    assert!(matches!(bounced, Err(ChangeError::Stuck { .. })), "{bounced:?}");
    released?;
    let lines = events.lines();
    let second = lines.iter().rposition(|line| line.starts_with("/a starting"));
    let ended = lines.iter().position(|line| line.starts_with("/a ended"));
    assert!(ended < second, "{events:?}");
    Ok(clean_kill(engine).await?)
}

#[tokio::test]
async fn a_stuck_worker_does_not_hold_up_its_inputs() -> TestResult {
    let workers = WorkerRuntime::new(2)?;
    let engine = test_engine().workers_on(workers.handle()?).build()?;
    let (journal, script) = (Journal::new(), Script::new());
    engine.install(A, journal.manifold(())).await?;
    engine.install(B, script.manifold(A).grace(SHORT).abort_grace(SHORT)).await?;
    engine.running(B).await?;
    script.never_yield();
    script.blocked().await?;

    engine.bounce(A).await?;
    engine.running(A).await?;

    let stuck = state(&engine, "b").await;
    script.release();
    engine.running(B).await?;
    assert_eq!(stuck, WorkerState::Stuck);
    assert_eq!(journal.starts("a"), 2);
    Ok(clean_kill(engine).await?)
}

#[tokio::test]
async fn a_reporter_that_blocks_its_thread_is_named_and_delays_nobody() -> TestResult {
    const LOUD: Name<()> = Name::new("loud");
    let workers = WorkerRuntime::new(2)?;
    let engine = test_engine().workers_on(workers.handle()?).build()?;
    let (release, held) = mpsc::channel::<()>();
    let held = Arc::new(Mutex::new(held));
    let quiet = reporting(move || {
        held.lock().recv().ok();
        "late"
    });
    engine.install(A, quiet.report_deadline(Duration::from_millis(200))).await?;
    let loud = reporting(|| "here").report_deadline(Duration::from_secs(3600));
    engine.install(LOUD, loud).await?;
    engine.running(A).await?;
    engine.running(LOUD).await?;

    let report = engine.report().await;

    drop(release);
    let silence = report.workers["a"].reporter.as_deref();
    assert_eq!(silence, Some("no answer within 200ms"));
    assert_eq!(serde_json::to_value(&report.workers["loud"].report)?, "here");
    Ok(clean_kill(engine).await?)
}

/// Returns a manifold whose reporter answers with what a function returns.
fn reporting(answer: impl Fn() -> &'static str + Send + Sync + 'static) -> Manifold {
    let answer = Arc::new(answer);
    Manifold::builder()
        .start(|(), _ctx| async { Ok(Idle) })
        .output(|_| 1_u32)
        .report(move |_| {
            let answer = Arc::clone(&answer);
            move || {
                let answer = Arc::clone(&answer);
                async move { serde_json::Value::from(answer()) }
            }
        })
        .build()
}

/// Waits in its drop until the test lets it go.
struct Heavy(Arc<Mutex<mpsc::Receiver<()>>>);

impl Drop for Heavy {
    fn drop(&mut self) {
        self.0.lock().recv().ok();
    }
}

#[tokio::test]
async fn a_value_whose_drop_blocks_holds_up_no_call() -> TestResult {
    let heavy = Name::<Arc<Heavy>>::new("heavy");
    let workers = WorkerRuntime::new(2)?;
    let engine = test_engine().workers_on(workers.handle()?).build()?;
    let (release, held) = mpsc::channel::<()>();
    engine.provide(heavy.clone(), Arc::new(Heavy(Arc::new(Mutex::new(held))))).await?;
    engine.running(heavy.clone()).await?;

    let uninstalled = engine.uninstall(heavy.clone());
    engine.provide(A, 1).await?;
    let value = engine.output(A).await?;

    drop(release);
    uninstalled.await?;
    assert_eq!(value, 1);
    Ok(clean_kill(engine).await?)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn many_workers_on_many_threads_stop_in_order() -> TestResult {
    let (engine, journal) = (test_engine().build()?, Journal::new());
    let names = (0..50).map(|index| Name::<u32>::parse(&format!("n{index}")));
    let names = names.collect::<Result<Vec<_>, _>>()?;
    engine.install(names[0].clone(), journal.manifold(())).await?;
    for pair in names.windows(2) {
        engine.install(pair[1].clone(), journal.manifold(&pair[0])).await?;
    }
    engine.running(names[49].clone()).await?;

    clean_kill(engine).await?;

    let expected: Vec<_> = names.iter().rev().map(ToString::to_string).collect();
    assert_eq!(journal.stops(), expected);
    Ok(())
}

#[tokio::test]
async fn what_makes_a_nested_engine_is_not_run_beside_its_former_run() -> TestResult {
    const SITE: Name<Engine> = Name::new("site");
    let (workers, journal) = (WorkerRuntime::new(2)?, Journal::new());
    let policy = test_policy().grace(SHORT).bounce_delay(Duration::ZERO);
    let engine = test_engine().workers_on(workers.handle()?).policy(policy).build()?;
    let mut events = EventRecorder::new(&engine);
    let (release, held) = mpsc::channel::<()>();
    let (begun, mut begins) = unbounded_channel();
    let (noted, held) = (journal.clone(), Mutex::new(held));
    let site = Nested::new(move || {
        noted.note("begin");
        begun.send(()).ok();
        held.lock().recv().ok();
        noted.note("end");
        Change::new()
    });
    engine.install_nested(SITE, site.manifold(|site| site.abort_grace(SHORT))).await?;
    begins.recv().await.ok_or("it was not begun")?;

    let bounced = engine.bounce(SITE);
    let is_next =
        |kind: &EventKind| matches!(kind, EventKind::Stuck | EventKind::Starting { generation: 2 });
    let next = events.wait_for_kind("/site", is_next).await?;
    drop(release);
    assert!(matches!(bounced.await, Err(ChangeError::Stuck { .. })));
    engine.running(SITE).await?;

    assert_eq!(next.kind, EventKind::Stuck);
    assert_eq!(journal.lines(), ["begin", "end", "begin", "end"]);
    Ok(clean_kill(engine).await?)
}
