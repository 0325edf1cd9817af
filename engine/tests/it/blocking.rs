//! Blocking workers, which have threads of their own, on a clock that runs.

use std::sync::Arc;
use std::sync::mpsc;
use std::time::Duration;

use crankcase_engine::{EndKind, EngineError, EventKind, Manifold, Metrics, Name, WorkerState};
use crankcase_testing::{EventRecorder, Failure, Journal, Script, clean_kill, test_engine};
use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::threads::{SHORT, WorkerRuntime};
use crate::{A, B, Idle, Spans, TestResult, state, stop_all, with_grace};

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

/// Returns a manifold with a thread of its own that ignores its stop until the sender is dropped, and
/// its sender.
pub(crate) fn deaf() -> (Manifold, mpsc::Sender<()>) {
    let (release, held) = mpsc::channel::<()>();
    let held = Arc::new(Mutex::new(held));
    let deaf = Manifold::builder().offers::<(u32,)>().run_blocking(move |(), up| {
        drop(up.ready((1,)));
        // An error is a release, too.
        held.lock().recv().ok();
        Ok(())
    });
    (deaf, release)
}

#[tokio::test]
async fn a_blocking_worker_that_ignores_its_stop_is_left_behind() -> TestResult {
    let engine = test_engine().policy(with_grace(SHORT)).build()?;
    let (deaf, release) = deaf();
    engine.install(A, deaf.abort_grace(SHORT)).await?;
    engine.running(A).await?;

    let ended = engine.stop().await;

    drop(release);
    assert!(matches!(ended, Err(EngineError::LeftBehind { .. })), "{ended:?}");
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
async fn a_worker_is_not_gone_while_its_blocking_work_goes_on() -> TestResult {
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
    engine.running(A).await?;

    engine.kill();
    events.wait_for_kind("/a", |kind| matches!(kind, EventKind::Ended { .. })).await?;
    assert_eq!(state(&engine, "a").await, WorkerState::Lingering);
    drop(release);
    engine.wait().await?;

    assert_eq!(journal.lines(), ["work done"]);
    Ok(())
}

#[tokio::test]
async fn a_blocking_start_that_is_stopped_is_waited_for() -> TestResult {
    let (engine, journal) = (test_engine().build()?, Journal::new());
    let (noted, began) = (journal.clone(), Arc::new(Notify::new()));
    let begins = Arc::clone(&began);
    let slow = Manifold::builder()
        .start_blocking(move |(), ctx| {
            begins.notify_one();
            ctx.stop().wait_blocking();
            noted.note("start has ended");
            Ok(Idle)
        })
        .output(|_| 1_u32)
        .build();
    engine.install(A, slow).await?;
    began.notified().await;

    engine.uninstall(A).await?;

    assert_eq!(journal.lines(), ["start has ended"]);
    Ok(clean_kill(engine).await?)
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
async fn what_a_blocking_start_held_is_dropped_before_the_worker_is_gone() -> TestResult {
    let workers = WorkerRuntime::new(2)?;
    let engine = test_engine().workers_on(workers.handle()?).build()?;
    let mut events = EventRecorder::new(&engine);
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

    let uninstalled = async { engine.uninstall(A).await };
    let looked = async {
        let dropped = told.recv().await;
        drop(go_on);
        let dropping = told.recv().await;
        let ended = events.wait_for_kind("/a", |kind| matches!(kind, EventKind::Ended { .. }));
        let ended = ended.await.map(drop);
        let state = state(&engine, "a").await;
        drop(release);
        ended.map(|()| (dropped, dropping, state))
    };
    let (uninstalled, looked) = tokio::join!(uninstalled, looked);

    uninstalled?;
    assert_eq!(looked?, (Some("future dropped"), Some("dropping"), WorkerState::Lingering));
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

#[tokio::test]
async fn a_blocking_worker_is_not_gone_before_what_passes_its_values_on() -> TestResult {
    let (workers, script) = (WorkerRuntime::new(1)?, Script::new());
    let engine = test_engine().workers_on(workers.handle()?).build()?;
    let mut events = EventRecorder::new(&engine);
    let values = tokio::sync::watch::Sender::new(1_u32);
    let changing = Manifold::builder().offers::<(crankcase_engine::Changing<u32>,)>();
    let changing = changing.run_blocking(move |(), up| {
        up.ready((crankcase_engine::Changing::new(values.subscribe()),)).wait_blocking();
        Ok(())
    });
    engine.install(A, changing).await?;
    engine.install(B, script.manifold(())).await?;
    engine.running(A).await?;
    engine.running(B).await?;
    // It takes the thread that the values are passed on by.
    script.never_yield();
    script.blocked().await?;

    let parked = engine.park(A);
    events.wait_for_kind("/a", |kind| matches!(kind, EventKind::Ended { .. })).await?;

    let state = state(&engine, "a").await;
    script.release();
    parked.await?;
    assert_eq!(state, WorkerState::Lingering);
    Ok(clean_kill(engine).await?)
}

#[tokio::test]
async fn what_a_thread_was_to_be_started_with_is_dropped_before_its_worker_is_gone() -> TestResult {
    const HELD: Name<Arc<()>> = Name::new("held");
    let (go, open) = mpsc::channel();
    let (tests, open) = (std::thread::current().id(), Mutex::new(open));
    // The worker's thread waits where it enters the worker's span, and where it lets go of it.
    let _spans = tracing::subscriber::set_default(Spans(move |_| {
        if std::thread::current().id() != tests {
            open.lock().recv().ok();
        }
    }));
    let (engine, held) = (test_engine().build()?, Arc::new(()));
    let mut events = EventRecorder::new(&engine);
    let idle = Manifold::builder().inputs(HELD).offers::<(u32,)>().run_blocking(|_, up| {
        up.ready((1,)).wait_blocking();
        Ok(())
    });
    engine.provide(HELD, Arc::clone(&held)).await?;
    engine.install(A, idle).await?;
    events.wait_for_kind("/a", |kind| matches!(kind, EventKind::Starting { .. })).await?;

    let parked = engine.park(A);
    go.send(())?;
    parked.await?;
    engine.uninstall(HELD).await?;

    assert_eq!(Arc::strong_count(&held), 1);
    drop(go);
    Ok(clean_kill(engine).await?)
}

/// Remembers the paths of the workers that have ended.
#[derive(Default)]
struct Ended(Mutex<Vec<String>>);

impl Metrics for Ended {
    fn worker_ended(&self, path: &str, _: EndKind, _: Duration) {
        self.0.lock().push(path.to_owned());
    }
}

/// A stack that is larger than the address space: there is no thread with it.
const NO_STACK: &str = "1152921504606846976";

/// Returns whether this process can make no threads; runs the test in such a process if this one can.
fn is_without_threads(test: &str) -> Result<bool, Box<dyn std::error::Error>> {
    if std::env::var("RUST_MIN_STACK").is_ok_and(|size| size == NO_STACK) {
        return Ok(true);
    }
    let mut child = std::process::Command::new(std::env::current_exe()?);
    child.args(["--exact", test, "--test-threads=1"]).env("RUST_MIN_STACK", NO_STACK);
    let output = child.output()?;
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
    Ok(false)
}

#[tokio::test]
async fn a_worker_without_a_thread_ends_outside_the_engines_loop() -> TestResult {
    let test = "blocking::a_worker_without_a_thread_ends_outside_the_engines_loop";
    if !is_without_threads(test)? {
        return Ok(());
    }
    let ended = Arc::new(Ended::default());
    let engine = test_engine().metrics(Arc::clone(&ended) as Arc<dyn Metrics>).build()?;
    let mut events = EventRecorder::new(&engine);

    // The worker is started in this call, or in the engine's own task.
    let installed = engine.install(A, blocking(&Journal::new()));
    let ended_in_loop = ended.0.lock().clone();
    installed.await?;
    let event = events.wait_for_kind("/a", |kind| matches!(kind, EventKind::Ended { .. })).await?;

    assert_eq!(event.kind.to_string(), "ended, failed: cannot make a thread for it");
    assert_eq!(ended_in_loop, [] as [&str; 0]);
    assert_eq!(*ended.0.lock(), ["/a"]);
    stop_all(&engine).await
}

/// The start timeout of a worker that says much earlier that it will not come up.
const LATE: Duration = Duration::from_secs(20);

/// Returns the first event of `/a` that says how it is, or that it has ended.
async fn health_or_end(events: &mut EventRecorder) -> Result<EventKind, Failure> {
    let is_wanted =
        |kind: &EventKind| matches!(kind, EventKind::Health { .. } | EventKind::Ended { .. });
    Ok(events.wait_for_kind("/a", is_wanted).await?.kind)
}

#[tokio::test]
async fn a_blocking_worker_that_drops_its_up_and_goes_on_says_so() -> TestResult {
    let engine = test_engine().build()?;
    let mut events = EventRecorder::new(&engine);
    let forgets = Manifold::builder().offers::<(u32,)>().run_blocking(|(), up| {
        let stop = up.context().stop().clone();
        drop(up);
        stop.wait_blocking();
        Ok(())
    });

    engine.install(A, forgets.start_timeout(LATE)).await?;

    let said = health_or_end(&mut events).await?;
    assert!(matches!(said, EventKind::Health { degraded: Some(_) }), "{said}");
    stop_all(&engine).await
}

#[tokio::test]
async fn a_blocking_worker_whose_up_is_dropped_on_another_thread_says_so() -> TestResult {
    let engine = test_engine().build()?;
    let mut events = EventRecorder::new(&engine);
    let gives_away = Manifold::builder().offers::<(u32,)>().run_blocking(|(), up| {
        let stop = up.context().stop().clone();
        std::thread::scope(|scope| {
            scope.spawn(move || drop(up));
        });
        stop.wait_blocking();
        Ok(())
    });

    engine.install(A, gives_away.start_timeout(LATE)).await?;

    let said = health_or_end(&mut events).await?;
    assert!(matches!(said, EventKind::Health { degraded: Some(_) }), "{said}");
    stop_all(&engine).await
}

#[tokio::test]
async fn a_blocking_worker_that_ends_before_it_is_up_says_nothing_besides() -> TestResult {
    let engine = test_engine().build()?;
    let mut events = EventRecorder::new(&engine);
    let fails = Manifold::builder()
        .offers::<(u32,)>()
        .run_blocking(|(), _up| Err("there is no disk".into()));

    engine.install(A, fails).await?;

    let said = health_or_end(&mut events).await?;
    assert_eq!(said.to_string(), "ended, failed: there is no disk");
    stop_all(&engine).await
}

/// Publishes a value in the moment between a worker's outputs being taken and it being up.
struct Early(Vec<tokio::sync::watch::Sender<u32>>);

impl Metrics for Early {
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
