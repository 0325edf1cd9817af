//! What users made is dropped outside the loop, and its worker is not gone before (S12, S17).

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use std::task::{Context, Waker};
use std::time::Duration;

use crankcase_engine::owner::NestedEngine;
use crankcase_engine::{
    Backoff, Change, ChangeError, Changing, Engine, EventKind, Exit, Manifold, Name, Nested,
    WorkerState,
};
use crankcase_testing::{EventRecorder, clean_kill, test_engine, wait_for_state};
use parking_lot::Mutex;
use tokio::sync::watch;

use crate::threads::{SHORT, WorkerRuntime};
use crate::{A, Idle, TestResult, state, stop_all, with_bounce_delay};

/// Counts how many of its kind there are.
struct Counted(Arc<AtomicUsize>);

impl Counted {
    fn new(alive: &Arc<AtomicUsize>) -> Self {
        alive.fetch_add(1, Ordering::SeqCst);
        Self(Arc::clone(alive))
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

const HOLDS: Name<Arc<Counted>> = Name::new("holds");

/// Returns a manifold that offers a counted value, and the most that were left when one started.
fn holds() -> (Manifold, Arc<AtomicUsize>) {
    let (alive, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let holds = Manifold::builder().offers::<(Arc<Counted>,)>().run_with(
        (alive, Arc::clone(&most)),
        |(alive, most), (), up| async move {
            most.fetch_max(alive.load(Ordering::SeqCst), Ordering::SeqCst);
            up.ready((Arc::new(Counted::new(&alive)),)).wait().await;
            Ok(())
        },
    );
    (holds, most)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_worker_offered_is_dropped_before_the_next_generation_starts() -> TestResult {
    let engine = test_engine().policy(with_bounce_delay(Duration::ZERO)).build()?;
    let (holds, most) = holds();
    engine.install(HOLDS, holds).await?;

    for _ in 0..300 {
        engine.running(HOLDS).await?;
        engine.bounce(HOLDS).await?;
    }

    assert_eq!(most.load(Ordering::SeqCst), 0);
    Ok(clean_kill(engine).await?)
}

#[tokio::test]
async fn an_imported_value_is_dropped_before_its_next_generation_starts() -> TestResult {
    let engine = test_engine().policy(with_bounce_delay(Duration::ZERO)).build()?;
    let ((holds, most), site) = (holds(), Name::<()>::new("site"));
    engine.install(HOLDS, holds).await?;
    engine.install_nested(site.clone(), Nested::new(Change::new).require(HOLDS, HOLDS)).await?;

    for _ in 0..100 {
        engine.running(site.clone()).await?;
        engine.bounce(HOLDS).await?;
    }

    assert_eq!(most.load(Ordering::SeqCst), 0);
    Ok(clean_kill(engine).await?)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_listener_can_be_bound_again_at_every_bounce() -> TestResult {
    const WEB: Name<Arc<std::net::TcpListener>> = Name::new("web");
    let engine = test_engine().policy(with_bounce_delay(Duration::ZERO)).build()?;
    // An address of this process alone: nobody else takes the port meanwhile.
    let [_, high, middle, low] = std::process::id().to_be_bytes();
    let host = std::net::Ipv4Addr::new(127, high, middle, low);
    let port = std::net::TcpListener::bind((host, 0))?.local_addr()?.port();
    let web = Manifold::builder().offers::<(Arc<std::net::TcpListener>,)>().run(
        move |(), up| async move {
            let listener = std::net::TcpListener::bind((host, port))?;
            up.ready((Arc::new(listener),)).wait().await;
            Ok(())
        },
    );
    engine.install(WEB, web).await?;

    for _ in 0..100 {
        engine.running(WEB).await?;
        engine.bounce(WEB).await?;
    }

    engine.running(WEB).await?;
    assert_eq!(engine.report().await.workers["web"].failures, 0);
    Ok(clean_kill(engine).await?)
}

/// A value whose drop blocks until the test lets it go.
struct Heavy {
    held: Arc<Mutex<mpsc::Receiver<()>>>,
    _counted: Counted,
}

impl Drop for Heavy {
    fn drop(&mut self) {
        self.held.lock().recv().ok();
    }
}

const HEAVY: Name<Arc<Heavy>> = Name::new("heavy");

/// Returns a worker that fails without an end and offers what blocks in its drop until the sender is
/// dropped; `alive` counts that.
fn crashes(alive: &Arc<AtomicUsize>) -> (Manifold, mpsc::Sender<()>) {
    let (release, held) = mpsc::channel::<()>();
    let config = (Arc::clone(alive), Arc::new(Mutex::new(held)));
    let crashes = Manifold::builder().offers::<(Arc<Heavy>,)>().run_with(
        config,
        |(alive, held), (), up| async move {
            let heavy = Heavy { held, _counted: Counted::new(&alive) };
            drop(up.ready((Arc::new(heavy),)));
            Err("again".into())
        },
    );
    (crashes.backoff(Backoff::none()).grace(SHORT).abort_grace(SHORT), release)
}

#[tokio::test]
async fn a_drop_that_blocks_holds_up_a_crash_loop() -> TestResult {
    let workers = WorkerRuntime::new(2)?;
    let engine = test_engine().workers_on(workers.handle()?).build()?;
    let alive = Arc::new(AtomicUsize::new(0));
    let (crashes, release) = crashes(&alive);

    engine.install(HEAVY, crashes).await?;
    wait_for_state(&engine, "heavy", WorkerState::Stuck).await?;

    assert_eq!(alive.load(Ordering::SeqCst), 1);
    engine.park(HEAVY).await.expect_err("it is stuck");
    drop(release);
    wait_for_state(&engine, "heavy", WorkerState::Parked).await?;
    Ok(clean_kill(engine).await?)
}

#[tokio::test]
async fn a_worker_that_was_only_dropping_a_value_tells_when_it_is_gone() -> TestResult {
    let workers = WorkerRuntime::new(2)?;
    let engine = test_engine().workers_on(workers.handle()?).build()?;
    let mut events = EventRecorder::new(&engine);
    let (release, held) = mpsc::channel::<()>();
    let holds = Manifold::builder().offers::<(Arc<Heavy>,)>().run_with(
        Arc::new(Mutex::new(held)),
        |held, (), up| async move {
            let heavy = Heavy { held, _counted: Counted::new(&Arc::default()) };
            up.ready((Arc::new(heavy),)).wait().await;
            Ok(())
        },
    );
    engine.install(HEAVY, holds).await?;
    engine.running(HEAVY).await?;

    let park = engine.park(HEAVY);
    wait_for_state(&engine, "heavy", WorkerState::Lingering).await?;
    drop(release);
    park.await?;

    let gone = events.wait_for_kind("/heavy", |kind| *kind == EventKind::Gone).await?;
    let heavy = &engine.report().await.workers["heavy"];
    assert_eq!((heavy.state, heavy.last_event), (WorkerState::Parked, Some(gone.sequence)));
    Ok(clean_kill(engine).await?)
}

#[tokio::test]
async fn a_drop_that_blocks_holds_up_the_next_run_of_a_nested_engine() -> TestResult {
    const SITE: Name<Engine> = Name::new("site");
    let workers = WorkerRuntime::new(2)?;
    let engine = test_engine().workers_on(workers.handle()?).build()?;
    let alive = Arc::new(AtomicUsize::new(0));
    let (crashes, release) = crashes(&alive);
    let site = Manifold::builder().start_with(crashes, |crashes, (), ctx| async move {
        let nested = test_engine().build_nested(&ctx)?;
        nested.install(HEAVY, crashes).await?;
        Ok::<NestedEngine, Exit>(nested)
    });
    let site = site.output(|nested| Engine::clone(nested)).build();
    engine.install(SITE, site.abort_grace(SHORT)).await?;
    wait_for_state(&engine.output(SITE).await?, "heavy", WorkerState::Stuck).await?;

    let bounced = engine.bounce(SITE).await;

    let kept = alive.load(Ordering::SeqCst);
    drop(release);
    engine.running(SITE).await?;
    assert_eq!(bounced, Err(ChangeError::Stuck { name: "site".to_owned() }));
    assert_eq!(kept, 1);
    stop_all(&engine).await
}

/// A numbered value. The drop of the first says that it has begun, and blocks until the test lets it
/// go.
struct Numbered {
    number: usize,
    telling: tokio::sync::mpsc::UnboundedSender<()>,
    held: Arc<Mutex<mpsc::Receiver<()>>>,
    _counted: Counted,
}

impl PartialEq for Numbered {
    fn eq(&self, other: &Self) -> bool {
        self.number == other.number
    }
}

impl Drop for Numbered {
    fn drop(&mut self) {
        if self.number == 0 {
            self.telling.send(()).ok();
            self.held.lock().recv().ok();
        }
    }
}

#[tokio::test]
async fn a_drop_that_blocks_holds_up_who_publishes_and_nobody_else() -> TestResult {
    const VALUE: Name<Arc<Numbered>> = Name::new("value");
    let workers = WorkerRuntime::new(2)?;
    let engine = test_engine().workers_on(workers.handle()?).build()?;
    let alive = Arc::new(AtomicUsize::new(0));
    let (release, held) = mpsc::channel::<()>();
    let (telling, mut told) = tokio::sync::mpsc::unbounded_channel();
    let held = Arc::new(Mutex::new(held));
    let value = |number| {
        let (telling, held) = (telling.clone(), Arc::clone(&held));
        Arc::new(Numbered { number, telling, held, _counted: Counted::new(&alive) })
    };
    let values = watch::Sender::new(value(0));
    let publishes = Manifold::builder().offers::<(Changing<Arc<Numbered>>,)>().run_with(
        values.subscribe(),
        |values, (), up| async move {
            up.ready((Changing::new(values),)).wait().await;
            Ok(())
        },
    );
    engine.install(VALUE, publishes).await?;
    engine.running(VALUE).await?;

    values.send(value(1))?;
    told.recv().await.ok_or("nothing is dropped")?;
    for number in 2..1_000 {
        values.send(value(number))?;
    }
    let kept = alive.load(Ordering::SeqCst);
    engine.provide(A, 1).await?;

    assert!(kept < 10, "{kept} values wait behind one that blocks");
    drop(release);
    Ok(clean_kill(engine).await?)
}

#[tokio::test(start_paused = true)]
async fn a_reporter_that_owes_an_answer_is_dropped_before_its_worker_is_gone() -> TestResult {
    let engine = test_engine().build()?;
    let alive = Arc::new(AtomicUsize::new(0));
    let counting = Arc::clone(&alive);
    let silent = Manifold::builder().start(|(), _ctx| async { Ok(Idle) }).output(|_| 1_u32);
    let silent = silent.report(move |_| {
        let counted = Counted::new(&counting);
        move || {
            let _counted = &counted;
            std::future::pending::<serde_json::Value>()
        }
    });
    engine.install(A, silent.build()).await?;
    engine.running(A).await?;
    let asking = engine.clone();
    let mut report = pin!(asking.report());
    assert!(report.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());

    engine.park(A).await?;

    assert_eq!(alive.load(Ordering::SeqCst), 0);
    Ok(clean_kill(engine).await?)
}

#[tokio::test]
async fn an_answer_that_blocks_holds_up_the_next_generation_of_its_worker() -> TestResult {
    let workers = WorkerRuntime::new(2)?;
    let engine = test_engine().workers_on(workers.handle()?).build()?;
    let (release, held) = mpsc::channel::<()>();
    let held = Arc::new(Mutex::new(held));
    let blocks = Manifold::builder().start(|(), _ctx| async { Ok(Idle) }).output(|_| 1_u32);
    let blocks = blocks.report(move |_| {
        let held = Arc::clone(&held);
        move || std::future::ready(serde_json::json!(held.lock().recv().is_ok()))
    });
    let blocks = blocks.build().report_deadline(SHORT).grace(SHORT).abort_grace(SHORT);
    engine.install(A, blocks).await?;
    engine.running(A).await?;
    engine.report().await;

    let bounced = engine.bounce(A).await;

    drop(release);
    engine.running(A).await?;
    assert_eq!(bounced, Err(ChangeError::Stuck { name: "a".to_owned() }));
    Ok(clean_kill(engine).await?)
}

#[tokio::test]
async fn a_value_that_comes_after_the_start_timeout_holds_its_worker() -> TestResult {
    let workers = WorkerRuntime::new(2)?;
    let engine = test_engine().workers_on(workers.handle()?).build()?;
    let mut events = EventRecorder::new(&engine);
    let alive = Arc::new(AtomicUsize::new(0));
    let (release, held) = mpsc::channel::<()>();
    let held = Arc::new(Mutex::new(held));
    let of_late = Arc::clone(&alive);
    let late = Manifold::builder().offers::<(Arc<Heavy>,)>().run_blocking(move |(), up| {
        up.context().stop().wait_blocking();
        let heavy = Heavy { held: Arc::clone(&held), _counted: Counted::new(&of_late) };
        drop(up.ready((Arc::new(heavy),)));
        Ok(())
    });

    engine.install(HEAVY, late.start_timeout(SHORT)).await?;
    loop {
        events.wait_for_kind("/heavy", |kind| matches!(kind, EventKind::Ended { .. })).await?;
        // The timeout may pass before its thread runs. Then it has no value, and is started again.
        if alive.load(Ordering::Relaxed) > 0 {
            break;
        }
    }

    assert_eq!(state(&engine, "heavy").await, WorkerState::Lingering);
    drop(release);
    stop_all(&engine).await
}
