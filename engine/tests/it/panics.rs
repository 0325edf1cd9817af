//! Panics in every place where a user's code runs.

use std::fmt;
use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Wake, Waker};
use std::time::Duration;

use crankcase_engine::{
    Change, EndKind, Engine, EngineState, EventKind, Exit, Manifold, Metrics, Name, Notice,
    Outcome, Severity, Stop, Worker, WorkerState,
};
use crankcase_testing::{EventRecorder, Failure, Script, clean_kill, test_engine, wait_for_state};
use tokio::runtime::Builder;
use tokio::sync::watch;

use crate::{A, Idle, TestResult, stop_all, with_grace};

/// Waits until `/a` has panicked, and returns the error's text; the engine lives on.
async fn panic_of(engine: &Engine, manifold: Manifold) -> Result<String, Failure> {
    let mut events = EventRecorder::new(engine);
    let installed = engine.install(A, manifold).await;
    installed.map_err(|error| Failure::new(error.to_string()))?;
    let is_panic = |kind: &EventKind| matches!(kind, EventKind::Ended { is_panic: true, .. });
    let event = events.wait_for_kind("/a", is_panic).await?;
    clean_kill(engine.clone()).await?;
    match event.kind {
        EventKind::Ended { end: EndKind::Failed, error: Some(error), .. } => Ok(error),
        other => Err(Failure::new(other.to_string())),
    }
}

/// Checks that a manifold's worker panics and that its error says so.
async fn check_panic(manifold: Manifold, expected: &str) -> TestResult {
    let text = panic_of(&test_engine().build()?, manifold).await?;

    assert_eq!(text, expected);
    Ok(())
}

/// Panics when it is dropped, compared or written, whichever the test brings about.
#[derive(Clone)]
struct Trap;

impl PartialEq for Trap {
    fn eq(&self, _: &Self) -> bool {
        panic!("compared")
    }
}

impl Worker for Trap {
    async fn run(self, stop: Stop) -> Outcome {
        stop.wait().await;
        Ok(())
    }
}

impl fmt::Debug for Trap {
    fn fmt(&self, _: &mut fmt::Formatter<'_>) -> fmt::Result {
        panic!("written")
    }
}

impl fmt::Display for Trap {
    fn fmt(&self, _: &mut fmt::Formatter<'_>) -> fmt::Result {
        panic!("written")
    }
}

impl std::error::Error for Trap {}

#[tokio::test(start_paused = true)]
async fn a_panic_in_a_start_is_reported() -> TestResult {
    let script = Script::new();
    script.panic_in_start("in start");

    check_panic(script.manifold(()), "panicked: in start").await
}

#[tokio::test(start_paused = true)]
async fn a_panic_before_the_starts_first_await_is_reported() -> TestResult {
    let panics = |()| -> std::future::Ready<Result<Idle, Exit>> { panic!("called") };
    let manifold = Manifold::builder().start(move |(), _| panics(())).output(|_| 1_u32).build();

    check_panic(manifold, "panicked: called").await
}

#[tokio::test(start_paused = true)]
async fn a_panic_in_a_run_is_reported() -> TestResult {
    let script = Script::new();
    script.panic("in run");

    check_panic(script.manifold(()), "panicked: in run").await
}

#[tokio::test(start_paused = true)]
async fn a_panic_in_an_output_is_reported() -> TestResult {
    let manifold = Manifold::builder()
        .start(|(), _| async { Ok(Idle) })
        .output(|_| -> u32 { panic!("in output") })
        .build();

    check_panic(manifold, "panicked: in output").await
}

#[tokio::test(start_paused = true)]
async fn a_panic_where_a_reporter_is_made_is_reported() -> TestResult {
    let manifold = Manifold::builder()
        .start(|(), _| async { Ok(Idle) })
        .output(|_| 1_u32)
        .report(|_| {
            assert!(std::env::args().count() == 0, "making a reporter");
            || async { serde_json::Value::Null }
        })
        .build();

    check_panic(manifold, "panicked: making a reporter").await
}

#[tokio::test(start_paused = true)]
async fn a_panic_in_the_comparison_of_a_changing_value_is_reported() -> TestResult {
    let engine = test_engine().build()?;
    let values = watch::Sender::new(Trap);
    let receiver = values.subscribe();
    let manifold = Manifold::builder()
        .start(|(), _| async { Ok(Idle) })
        .output(|_| 1_u32)
        .changing(move |_| receiver.clone())
        .build();
    values.send_replace(Trap);
    let publish = async {
        engine.running(A).await.ok();
        values.send_replace(Trap);
        std::future::pending::<()>().await;
    };

    let text = tokio::select! {
        text = panic_of(&engine, manifold) => text?,
        () = publish => String::new(),
    };

    assert_eq!(text, "panicked: compared");
    Ok(())
}

#[tokio::test]
async fn a_panic_in_the_comparison_of_a_blocking_workers_value_is_reported() -> TestResult {
    let engine = test_engine().build()?;
    let values = watch::Sender::new(Trap);
    let receiver = values.subscribe();
    let manifold = Manifold::builder()
        .offers::<(u32, crankcase_engine::Changing<Trap>)>()
        .run_blocking(move |(), up| {
            up.ready((1, crankcase_engine::Changing::new(receiver.clone()))).wait_blocking();
            Ok(())
        });
    let publish = async {
        engine.running(A).await.ok();
        values.send_replace(Trap);
        std::future::pending::<()>().await;
    };

    let text = tokio::select! {
        text = panic_of(&engine, manifold) => text?,
        () = publish => String::new(),
    };

    assert_eq!(text, "panicked: compared");
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_panic_in_a_filter_is_reported() -> TestResult {
    let script = Script::new();
    script.fail_start(Exit::failed("lost"));

    check_panic(script.manifold(()).filter(|_| panic!("in filter")), "panicked: in filter").await
}

#[tokio::test(start_paused = true)]
async fn a_panic_in_a_classifier_is_reported() -> TestResult {
    let classify = |_: &Exit| -> Severity { panic!("in classifier") };
    let engine = test_engine().classifier(classify).build()?;
    let script = Script::new();
    script.fail_start(Exit::failed("lost"));

    let text = panic_of(&engine, script.manifold(())).await?;

    assert_eq!(text, "panicked: in classifier");
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_panic_in_an_errors_text_is_reported() -> TestResult {
    let script = Script::new();
    script.fail_start(Exit::failed(Trap));

    check_panic(script.manifold(()), "panicked: written").await
}

/// Panics when it is dropped, unless the thread panics already.
#[derive(Clone, PartialEq)]
struct Bomb;

impl Drop for Bomb {
    fn drop(&mut self) {
        assert!(std::thread::panicking(), "dropped");
    }
}

impl Worker for Bomb {
    async fn run(self, stop: Stop) -> Outcome {
        stop.wait().await;
        Ok(())
    }
}

#[tokio::test(start_paused = true)]
async fn a_panic_in_the_drop_of_a_worker_is_reported() -> TestResult {
    let (engine, released) = (test_engine().build()?, Arc::new(tokio::sync::Notify::new()));
    let release = Arc::clone(&released);
    let closure = Manifold::builder().offers::<(u32,)>().run(move |(), up| {
        let (bomb, released) = (Bomb, Arc::clone(&released));
        async move {
            drop(up.ready((1,)));
            released.notified().await;
            drop(bomb);
            Ok(())
        }
    });
    release.notify_one();

    let text = panic_of(&engine, closure).await?;

    assert_eq!(text, "panicked: dropped");
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_value_whose_drop_panics_harms_nothing() -> TestResult {
    const BOMB: Name<Bomb> = Name::new("bomb");
    let engine = test_engine().build()?;
    let manifold = Manifold::builder().start(|(), _| async { Ok(Idle) }).output(|_| Bomb).build();
    engine.install(BOMB, manifold).await?;
    engine.running(BOMB).await?;

    engine.bounce(BOMB).await?;

    engine.running(BOMB).await?;
    Ok(clean_kill(engine).await?)
}

#[tokio::test(start_paused = true)]
async fn a_changing_value_whose_drop_panics_is_its_workers_own_failure() -> TestResult {
    #[derive(Clone, PartialEq)]
    struct Numbered(u32, Bomb);
    struct Publisher(watch::Sender<Numbered>);
    impl Worker for Publisher {
        async fn run(self, stop: Stop) -> Outcome {
            // Of all values, only the engine drops one: the first, after the second has come.
            std::mem::forget(self.0.send_replace(Numbered(1, Bomb)));
            std::mem::forget(self.0);
            stop.wait().await;
            Ok(())
        }
    }
    let manifold = Manifold::builder()
        .start(|(), _| async { Ok(Publisher(watch::Sender::new(Numbered(0, Bomb)))) })
        .output(|_| 1_u32)
        .changing(|worker| worker.0.subscribe())
        .build();

    check_panic(manifold, "panicked: dropped").await
}

#[tokio::test(start_paused = true)]
async fn a_worker_whose_drop_panics_when_it_is_dropped_after_its_grace_is_over() -> TestResult {
    let engine = test_engine().policy(with_grace(Duration::from_secs(1))).build()?;
    let closure = Manifold::builder().offers::<(u32,)>().run(|(), up| async move {
        let bomb = Bomb;
        drop(up.ready((1,)));
        std::future::pending::<()>().await;
        drop(bomb);
        Ok(())
    });
    engine.install(A, closure).await?;
    engine.running(A).await?;

    stop_all(&engine).await
}

#[tokio::test(start_paused = true)]
async fn a_panic_in_a_reporter_is_named_in_the_report() -> TestResult {
    let engine = test_engine().build()?;
    let manifold = Manifold::builder()
        .start(|(), _| async { Ok(Idle) })
        .output(|_| 1_u32)
        .report(|_| || async { panic!("in reporter") as serde_json::Value })
        .build();
    engine.install(A, manifold).await?;
    engine.running(A).await?;

    let report = engine.report().await;

    let reporter = report.workers["a"].reporter.as_deref();
    assert_eq!(reporter, Some("panicked: in reporter"));
    Ok(clean_kill(engine).await?)
}

struct Clumsy;

impl Metrics for Clumsy {
    fn worker_ended(&self, _: &str, _: EndKind, _: Duration) {
        panic!("in metrics");
    }
}

#[tokio::test(start_paused = true)]
async fn a_panic_in_the_metrics_hides_no_end() -> TestResult {
    let engine = test_engine().metrics(Arc::new(Clumsy)).build()?;
    engine.install(A, Script::new().manifold(())).await?;
    engine.running(A).await?;

    engine.bounce(A).await?;

    engine.running(A).await?;
    Ok(clean_kill(engine).await?)
}

/// Panics when it is woken.
struct BadWaker;

impl Wake for BadWaker {
    fn wake(self: Arc<Self>) {
        panic!("woken");
    }
}

#[tokio::test(start_paused = true)]
async fn a_waker_that_panics_where_a_stop_or_an_answer_is_waited_for_harms_nothing() -> TestResult {
    let engine = test_engine().build()?;
    let (sender, mut stops) = tokio::sync::mpsc::unbounded_channel();
    let lent = Manifold::builder().offers::<(u32,)>().run(move |(), up| {
        let stop = up.ready((1,));
        sender.send(stop.clone()).ok();
        async move {
            stop.wait().await;
            Ok(())
        }
    });
    engine.install(A, lent).await?;
    let stop = stops.recv().await.ok_or("no worker")?;
    let waker = Waker::from(Arc::new(BadWaker));
    let mut cx = Context::from_waker(&waker);
    let mut wait = pin!(stop.wait());
    assert!(wait.as_mut().poll(&mut cx).is_pending());

    let mut bounced = engine.bounce(A);
    assert!(pin!(&mut bounced).poll(&mut cx).is_pending());

    stops.recv().await.ok_or("no next worker")?;
    bounced.await?;
    engine.running(A).await?;
    Ok(clean_kill(engine).await?)
}

/// Waits for something with a waker that panics.
fn wait_badly<F: Future>(future: Pin<&mut F>) {
    let waker = Waker::from(Arc::new(BadWaker));
    assert!(future.poll(&mut Context::from_waker(&waker)).is_pending());
}

#[tokio::test(start_paused = true)]
async fn a_waker_that_panics_where_a_value_is_waited_for_harms_nothing() -> TestResult {
    let engine = test_engine().build()?;
    engine.provide(A, 1).await?;
    engine.running(A).await?;
    let mut value = engine.output(A).follow().await?;
    let mut changed = Box::pin(value.changed());
    wait_badly(changed.as_mut());

    engine.provide(A, 2).await?;
    engine.running(A).await?;

    drop(changed);
    assert_eq!(value.get(), Some(2));
    Ok(clean_kill(engine).await?)
}

#[tokio::test(start_paused = true)]
async fn a_waker_that_panics_where_an_event_is_waited_for_harms_nothing() -> TestResult {
    let engine = test_engine().build()?;
    let mut events = engine.events();
    let mut next = Box::pin(events.next());
    wait_badly(next.as_mut());

    engine.provide(A, 1).await?;
    engine.running(A).await?;

    assert!(matches!(next.await, Some(Notice::Event(_))));
    Ok(clean_kill(engine).await?)
}

#[tokio::test(start_paused = true)]
async fn a_waker_that_panics_where_an_engines_stop_is_waited_for_harms_nothing() -> TestResult {
    let (engine, slow) = (test_engine().build()?, Script::new());
    slow.stop_after(Duration::from_secs(5));
    engine.install(A, slow.manifold(())).await?;
    engine.running(A).await?;
    let mut events = EventRecorder::new(&engine);
    let asking = engine.clone();
    let mut stopping = pin!(asking.stopping());
    wait_badly(stopping.as_mut());

    engine.kill();
    wait_for_state(&engine, "a", WorkerState::Stopping).await?;

    stopping.await;
    let mut ended = pin!(asking.wait());
    wait_badly(ended.as_mut());
    events.finish().await?;
    Ok(ended.await?)
}

#[test]
fn a_waker_that_panics_where_an_engine_is_asked_from_outside_harms_nothing() -> TestResult {
    let runtime = Builder::new_current_thread().enable_all().start_paused(true).build()?;
    let slow = Script::new();
    slow.stop_after(Duration::from_secs(5));
    let engine = runtime.block_on(async {
        let engine = test_engine().build()?;
        engine.install(A, slow.manifold(())).await?;
        engine.running(A).await?;
        engine.kill();
        wait_for_state(&engine, "a", WorkerState::Stopping).await?;
        Ok::<_, Box<dyn std::error::Error>>(engine)
    })?;
    // Their answers come in a turn of the engine's own task.
    let (mut settled, mut report) = (Box::pin(engine.settled()), Box::pin(engine.report()));
    wait_badly(settled.as_mut());
    wait_badly(report.as_mut());

    let ended = runtime.block_on(engine.wait());

    assert_eq!(runtime.block_on(report).state, EngineState::Stopping);
    Ok(ended?)
}

#[tokio::test(start_paused = true)]
async fn a_previewed_value_whose_drop_panics_harms_nothing() -> TestResult {
    let engine = test_engine().build()?;

    let preview = engine.preview(Change::new().provide(Name::new("bomb"), Bomb)).await?;

    assert_eq!(preview.installed, ["/bomb"]);
    engine.ping().await?;
    Ok(clean_kill(engine).await?)
}

/// More names than a report is made of in a few turns.
const MANY: usize = 10_000;

#[tokio::test(start_paused = true)]
async fn a_reporter_whose_drop_panics_after_its_report_was_given_up_harms_nothing() -> TestResult {
    let engine = test_engine().build()?;
    let bomb = Manifold::builder().start(|(), _| async { Ok(Idle) }).output(|_| 1_u32);
    let bomb = bomb.report(|_| {
        let bomb = Bomb;
        move || {
            let _bomb = &bomb;
            async { serde_json::Value::Null }
        }
    });
    engine.install(A, bomb.build()).await?;
    engine.running(A).await?;
    let waiting = Manifold::builder().inputs(Name::<()>::new("nobody"));
    let waiting = waiting.run(|(), up| async move {
        up.ready(()).wait().await;
        Ok(())
    });
    let mut many = Change::new();
    for index in 0..MANY {
        many = many.install(Name::<()>::parse(&format!("n{index}"))?, waiting.clone());
    }
    engine.apply(many).await?;

    {
        let mut report = pin!(engine.report());
        assert!(report.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
        engine.uninstall(A).await?;
        // The worker's own hold on its reporter is let go.
        for _ in 0..10 {
            tokio::task::yield_now().await;
        }
    }

    engine.ping().await?;
    Ok(clean_kill(engine).await?)
}
