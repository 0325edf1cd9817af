//! Workers that block or never yield, on threads and on a clock that runs.

use std::sync::Arc;
use std::sync::mpsc;
use std::time::Duration;

use crankcase_engine::{Engine, EventKind, Manifold, Name, WorkerState};
use crankcase_testing::{EventRecorder, Journal, Script, clean_kill, test_engine, wait_for_state};
use parking_lot::Mutex;
use tokio::runtime::Runtime;

use crate::{A, B, TestResult, state};

const SHORT: Duration = Duration::from_millis(20);

/// A runtime for workers alone, whose end does not wait for threads that are still blocked.
struct WorkerRuntime(Option<Runtime>);

impl WorkerRuntime {
    fn new(threads: usize) -> std::io::Result<Self> {
        let mut builder = tokio::runtime::Builder::new_multi_thread();
        builder.worker_threads(threads).enable_all().build().map(|runtime| Self(Some(runtime)))
    }

    fn handle(&self) -> Result<tokio::runtime::Handle, &'static str> {
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
    let engine = test_engine().workers_on(workers.handle()?).grace(SHORT).build()?;
    let scripts = [Script::new(), Script::new()];
    for (name, script) in [A, B].into_iter().zip(&scripts) {
        let manifold = script.manifold(()).grace(SHORT).abort_grace(SHORT);
        engine.install(name.clone(), manifold).await?;
        engine.running(&name).await?;
    }
    scripts.iter().for_each(Script::never_yield);
    scripts[0].blocked().await;
    scripts[1].blocked().await;

    engine.stop().await?;

    let report = engine.report().await;
    scripts.iter().for_each(Script::release);
    assert_eq!(report.left_behind, ["/a", "/b"]);
    Ok(())
}

#[tokio::test]
async fn an_engine_reports_while_no_worker_yields() -> TestResult {
    let workers = WorkerRuntime::new(1)?;
    let engine = test_engine().workers_on(workers.handle()?).build()?;
    let script = Script::new();
    engine.install(A, script.manifold(()).grace(SHORT).abort_grace(SHORT)).await?;
    engine.running(&A).await?;
    script.never_yield();
    script.blocked().await;
    engine.provide(B, 1).await?;

    let name = A;
    let bounced = engine.bounce(&name);
    let reported = wait_for_state(&engine, "a", WorkerState::Stuck);
    let reported = tokio::select! {
        biased;
        bounced = bounced => Err(format!("it was bounced: {bounced:?}")),
        reported = reported => reported.map_err(|failure| failure.to_string()),
    };

    let report = engine.report().await;
    script.release();
    reported?;
    engine.running(&A).await?;
    assert_eq!(report.left_behind, ["/a"]);
    Ok(clean_kill(engine).await?)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_stuck_worker_is_started_again_only_when_it_has_ended() -> TestResult {
    let (engine, script) = (test_engine().build()?, Script::new());
    let mut events = EventRecorder::new(&engine);
    engine.install(A, script.manifold(()).grace(SHORT).abort_grace(SHORT)).await?;
    engine.running(&A).await?;
    script.never_yield();
    script.blocked().await;

    let asking = engine.clone();
    let bounced = async move { asking.bounce(&A).await };
    let released = async {
        events.wait_for_kind("/a", |kind| *kind == EventKind::Stuck).await?;
        assert_eq!(engine.report().await.workers["a"].starts, 1);
        script.release();
        events.wait_for_kind("/a", |kind| *kind == EventKind::Started { generation: 2 }).await
    };
    let (bounced, released) = tokio::join!(bounced, released);

    bounced?;
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
    engine.running(&B).await?;
    script.never_yield();
    script.blocked().await;

    engine.bounce(&A).await?;
    engine.running(&A).await?;

    let stuck = state(&engine, "b").await;
    script.release();
    engine.running(&B).await?;
    assert_eq!(stuck, WorkerState::Stuck);
    assert_eq!(journal.starts("a"), 2);
    Ok(clean_kill(engine).await?)
}

/// Returns a blocking manifold that notes the name of its thread and when it ends.
fn blocking(journal: &Journal) -> Manifold {
    let journal = journal.clone();
    Manifold::builder().offers::<(u32,)>().run_blocking(move |(), up| {
        let thread = std::thread::current();
        journal.note(format!("on {}", thread.name().unwrap_or("no name")));
        up.ready((1,)).wait_blocking();
        journal.note("ended");
        Ok(())
    })
}

#[tokio::test]
async fn a_blocking_worker_has_a_thread_of_its_name() -> TestResult {
    let (engine, journal) = (test_engine().build()?, Journal::new());

    engine.install(A, blocking(&journal)).await?;
    assert_eq!(engine.output(A).await?, 1);
    clean_kill(engine).await?;

    assert_eq!(journal.lines(), ["on a", "ended"]);
    Ok(())
}

#[tokio::test]
async fn a_blocking_worker_that_ignores_its_stop_is_left_behind() -> TestResult {
    let engine = test_engine().grace(SHORT).build()?;
    let (release, held) = mpsc::channel::<()>();
    let held = Arc::new(Mutex::new(held));
    let deaf = Manifold::builder().offers::<(u32,)>().run_blocking(move |(), up| {
        drop(up.ready((1,)));
        // An error is a release, too.
        held.lock().recv().ok();
        Ok(())
    });
    engine.install(A, deaf.abort_grace(SHORT)).await?;
    engine.running(&A).await?;

    engine.stop().await?;

    drop(release);
    assert_eq!(engine.report().await.left_behind, ["/a"]);
    Ok(())
}

#[tokio::test]
async fn a_panic_in_a_blocking_worker_is_reported() -> TestResult {
    let engine = test_engine().build()?;
    let mut events = EventRecorder::new(&engine);
    let panics = Manifold::builder().offers::<(u32,)>().run_blocking(|(), up| {
        drop(up.ready((1,)));
        panic!("on its thread")
    });

    engine.install(A, panics).await?;
    events.wait_for_kind("/a", |kind| matches!(kind, EventKind::Ended { .. })).await?;

    assert!(events.lines().contains(&"/a ended, failed: panicked: on its thread".to_owned()));
    Ok(clean_kill(engine).await?)
}

#[tokio::test]
async fn a_worker_does_not_count_as_ended_while_its_blocking_work_goes_on() -> TestResult {
    let (engine, journal) = (test_engine().build()?, Journal::new());
    let (release, held) = mpsc::channel::<()>();
    let (held, noted) = (Arc::new(Mutex::new(held)), journal.clone());
    let worker = Manifold::builder().offers::<(u32,)>().run(move |(), up| {
        let (held, noted) = (Arc::clone(&held), noted.clone());
        async move {
            let stop = up.ready((1,));
            let work = stop.blocking(move || {
                held.lock().recv().ok();
                noted.note("work done");
            });
            tokio::select! {
                biased;
                () = stop.wait() => Ok(()),
                done = work => Ok(done?),
            }
        }
    });
    let mut events = EventRecorder::new(&engine);
    engine.install(A, worker).await?;
    engine.running(&A).await?;

    engine.kill();
    events.wait_for_kind("/a", |kind| *kind == EventKind::Stopping).await?;
    assert_eq!(state(&engine, "a").await, WorkerState::Stopping);
    drop(release);
    engine.wait().await?;

    assert_eq!(journal.lines(), ["work done"]);
    Ok(())
}

#[tokio::test]
async fn a_blocking_start_that_is_stopped_is_waited_for() -> TestResult {
    let (engine, journal) = (test_engine().build()?, Journal::new());
    let noted = journal.clone();
    let slow = Manifold::builder()
        .start_blocking(move |(), ctx| {
            ctx.stop().wait_blocking();
            noted.note("start has ended");
            Ok(Idle)
        })
        .output(|_| 1_u32)
        .build();
    engine.install(A, slow).await?;

    engine.uninstall(&A).await?;

    assert_eq!(journal.lines(), ["start has ended"]);
    Ok(clean_kill(engine).await?)
}

struct Idle;

impl crankcase_engine::Worker for Idle {
    async fn run(self, stop: crankcase_engine::Stop) -> crankcase_engine::Outcome {
        stop.wait().await;
        Ok(())
    }
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
    engine.install(LOUD, reporting(|| "here")).await?;
    engine.running(&A).await?;
    engine.running(&LOUD).await?;

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

/// Says that it is being dropped, then waits until the test lets it go.
struct Telling(tokio::sync::mpsc::UnboundedSender<&'static str>, Arc<Mutex<mpsc::Receiver<()>>>);

impl Drop for Telling {
    fn drop(&mut self) {
        // The test waits for it.
        self.0.send("dropping").ok();
        self.1.lock().recv().ok();
    }
}

impl crankcase_engine::Worker for Telling {
    async fn run(self, stop: crankcase_engine::Stop) -> crankcase_engine::Outcome {
        stop.wait().await;
        Ok(())
    }
}

/// Says that what holds it is dropped.
struct Says(tokio::sync::mpsc::UnboundedSender<&'static str>);

impl Drop for Says {
    fn drop(&mut self) {
        // The test waits for it.
        self.0.send("future dropped").ok();
    }
}

#[tokio::test]
async fn what_a_blocking_start_held_is_dropped_before_its_end_is_told() -> TestResult {
    let workers = WorkerRuntime::new(2)?;
    let engine = test_engine().workers_on(workers.handle()?).build()?;
    let (go_on, waiting) = mpsc::channel::<()>();
    let (release, held) = mpsc::channel::<()>();
    let (waiting, held) = (Arc::new(Mutex::new(waiting)), Arc::new(Mutex::new(held)));
    let (telling, mut told) = tokio::sync::mpsc::unbounded_channel();
    let late = Manifold::builder()
        .start(move |(), ctx| {
            let (telling, waiting) = (telling.clone(), Arc::clone(&waiting));
            let (says, worker) =
                (Says(telling.clone()), Telling(telling.clone(), Arc::clone(&held)));
            async move {
                let _says = says;
                let work = move || {
                    telling.send("begun").ok();
                    waiting.lock().recv().ok();
                    worker
                };
                Ok(ctx.blocking(work).await?)
            }
        })
        .output(|_| 1_u32)
        .build();
    engine.install(A, late).await?;
    assert_eq!(told.recv().await, Some("begun"));

    let uninstalled = async { engine.uninstall(&A).await };
    let looked = async {
        let dropped = told.recv().await;
        drop(go_on);
        let dropping = told.recv().await;
        let state = state(&engine, "a").await;
        drop(release);
        (dropped, dropping, state)
    };
    let (uninstalled, looked) = tokio::join!(uninstalled, looked);

    uninstalled?;
    assert_eq!(looked, (Some("future dropped"), Some("dropping"), WorkerState::Stopping));
    Ok(clean_kill(engine).await?)
}

#[tokio::test]
async fn a_value_whose_drop_blocks_holds_up_no_call() -> TestResult {
    let heavy = Name::<Arc<Heavy>>::new("heavy");
    let workers = WorkerRuntime::new(2)?;
    let engine = test_engine().workers_on(workers.handle()?).build()?;
    let (release, held) = mpsc::channel::<()>();
    engine.provide(heavy.clone(), Arc::new(Heavy(Arc::new(Mutex::new(held))))).await?;
    engine.running(&heavy).await?;

    engine.uninstall(&heavy).await?;
    engine.provide(A, 1).await?;
    let value = engine.output(A).await?;

    drop(release);
    assert_eq!(value, 1);
    Ok(clean_kill(engine).await?)
}

#[tokio::test]
async fn a_blocking_worker_can_offer_a_changing_value() -> TestResult {
    let engine = test_engine().build()?;
    let values = tokio::sync::watch::Sender::new(1_u32);
    let receiver = values.subscribe();
    let changing = Manifold::builder().offers::<(crankcase_engine::Changing<u32>,)>();
    let changing = changing.run_blocking(move |(), up| {
        up.ready((crankcase_engine::Changing::new(receiver.clone()),)).wait_blocking();
        Ok(())
    });
    engine.install(A, changing).await?;
    let mut watch = engine.output(A).follow().await?;
    assert_eq!(watch.value().await, Ok(1));

    values.send(2)?;

    assert_eq!(watch.changed().await, Ok(Some(2)));
    Ok(clean_kill(engine).await?)
}

/// Publishes a value in the moment between a worker's outputs being taken and it being up.
struct Early(Vec<tokio::sync::watch::Sender<u32>>);

impl crankcase_engine::Metrics for Early {
    fn worker_started(&self, path: &str, _: Duration) {
        let index = path.strip_prefix("/n").and_then(|index| index.parse::<usize>().ok());
        if let Some(sender) = index.and_then(|index| self.0.get(index)) {
            sender.send_replace(2);
        }
    }
}

#[tokio::test]
async fn a_value_that_comes_while_a_blocking_worker_gets_ready_is_not_lost() -> TestResult {
    let workers = WorkerRuntime::new(2)?;
    let early = Arc::new(Early((0..200).map(|_| tokio::sync::watch::Sender::new(1)).collect()));
    let engine = test_engine().metrics(early.clone()).workers_on(workers.handle()?).build()?;

    for (index, sender) in early.0.iter().enumerate() {
        let name = Name::<u32>::parse(&format!("n{index}"))?;
        let changing = Manifold::builder().offers::<(crankcase_engine::Changing<u32>,)>();
        let receiver = sender.subscribe();
        let changing = changing.run_blocking(move |(), up| {
            up.ready((crankcase_engine::Changing::new(receiver.clone()),)).wait_blocking();
            Ok(())
        });
        engine.install(name.clone(), changing).await?;
        let mut watch = engine.output(name).follow().await?;
        while watch.value().await? != 2 {
            watch.changed().await?;
        }
    }

    Ok(clean_kill(engine).await?)
}

#[tokio::test]
async fn a_value_that_a_blocking_worker_publishes_at_once_is_not_lost() -> TestResult {
    let engine = test_engine().build()?;
    let values = tokio::sync::watch::Sender::new(1_u32);
    let changing = Manifold::builder().offers::<(crankcase_engine::Changing<u32>,)>();
    let changing = changing.run_blocking(move |(), up| {
        let stop = up.ready((crankcase_engine::Changing::new(values.subscribe()),));
        values.send_replace(2);
        stop.wait_blocking();
        Ok(())
    });

    engine.install(A, changing).await?;

    let mut watch = engine.output(A).follow().await?;
    while watch.value().await? != 2 {
        watch.changed().await?;
    }
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
    engine.running(&names[49]).await?;

    clean_kill(engine).await?;

    let expected: Vec<_> = names.iter().rev().map(ToString::to_string).collect();
    assert_eq!(journal.stops(), expected);
    Ok(())
}

#[test]
fn an_engine_whose_runtime_is_dropped_restarts_nothing() -> TestResult {
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    let runtime = builder.worker_threads(2).enable_all().build()?;
    let journal = Journal::new();
    let engine = runtime.block_on(async {
        let backoff = crankcase_engine::Backoff::none();
        let engine = Engine::builder().backoff(backoff).bounce_delay(Duration::ZERO).build()?;
        engine.install(A, journal.manifold(())).await?;
        engine.running(&A).await?;
        Ok::<_, Box<dyn std::error::Error>>(engine)
    })?;

    drop(runtime);

    assert_eq!(journal.lines(), ["start a"]);
    let other = tokio::runtime::Builder::new_current_thread().build()?;
    let error = other.block_on(engine.wait()).err().ok_or("it ended well")?;
    assert_eq!(error.to_string(), "the runtime of engine / was shut down");
    Ok(())
}

#[tokio::test]
async fn an_engine_whose_workers_runtime_is_gone_ends_with_an_error() -> TestResult {
    let workers = WorkerRuntime::new(1)?;
    let backoff = crankcase_engine::Backoff::none();
    let engine = test_engine().backoff(backoff).bounce_delay(Duration::ZERO);
    let engine = engine.workers_on(workers.handle()?).build()?;
    let journal = Journal::new();
    engine.install(A, journal.manifold(())).await?;
    engine.running(&A).await?;

    drop(workers);
    let error = engine.wait().await.err().ok_or("it ended well")?;

    assert_eq!(error.to_string(), "the runtime of engine / was shut down");
    assert_eq!(journal.starts("a"), 1);
    Ok(())
}
