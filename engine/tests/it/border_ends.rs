//! How borders between engines behave when something ends: kills, stuck workers, losses.

use std::sync::{Arc, mpsc};
use std::task::{Context as TaskContext, Poll, Waker};
use std::time::Duration;

use crankcase_engine::owner;
use crankcase_engine::testing::{Wrap, WrapPoint, Wrapped, WrappedInput};
use crankcase_engine::{
    Change, ChangeError, Context, Engine, EngineError, EventKind, Exit, Manifold, Name, Nested,
    Outcome, WorkerState,
};
use crankcase_testing::{EventRecorder, Journal, Script, clean_kill, test_engine, wait_for_state};
use parking_lot::Mutex;
use tokio::time::{Instant, sleep, timeout};

use crate::{A, B, C, TestResult, stop_all, with_grace};

const SITE: Name<Engine> = Name::new("site");
const FACT: Name<u32> = Name::new("fact");
const PAGE: Name<u32> = Name::new("page");
const OTHER: Name<u32> = Name::new("other");

/// Returns a nested engine with one worker.
fn one(name: Name<u32>, manifold: &Manifold) -> Nested {
    let manifold = manifold.clone();
    Nested::new(move || Change::new().install(name.clone(), manifold.clone()))
        .engine(|_| test_engine())
}

fn idle() -> Manifold {
    Manifold::builder().offers::<(u32,)>().run(|(), up| async move {
        up.ready((1,)).wait().await;
        Ok(())
    })
}

/// Checks that two things were noted, one before the other.
fn check_order(journal: &Journal, [first, then]: [&str; 2]) -> TestResult {
    let lines = journal.lines();
    let at = |wanted: &str| lines.iter().position(|line| line == wanted);
    let is_so = at(first).is_some_and(|first| at(then).is_some_and(|then| first < then));
    if is_so { Ok(()) } else { Err(format!("not {first:?} before {then:?}: {lines:?}").into()) }
}

/// A blocking worker that does not hear its stop.
fn deaf(held: &Arc<Mutex<mpsc::Receiver<()>>>) -> Manifold {
    let held = Arc::clone(held);
    Manifold::builder()
        .offers::<(u32,)>()
        .run_blocking(move |(), up| {
            drop(up.ready((1,)));
            held.lock().recv().ok();
            Ok(())
        })
        .grace(Duration::from_millis(20))
        .abort_grace(Duration::from_millis(20))
}

/// Returns an engine in which a user that is slow to stop uses what a nested engine exports.
async fn used_slowly(journal: &Journal) -> Result<Engine, Box<dyn std::error::Error>> {
    let engine = test_engine().build()?;
    let c = Script::new().recorded_in(journal);
    engine.install_nested(SITE, one(PAGE, &journal.manifold(())).export(PAGE, B)).await?;
    engine.install(C, c.manifold(B)).await?;
    engine.running(C).await?;
    journal.take();
    c.stop_after(Duration::from_secs(5));
    Ok(engine)
}

#[tokio::test(start_paused = true)]
async fn a_kill_during_a_bounce_inside_waits_for_the_users_outside() -> TestResult {
    let journal = Journal::new();
    let engine = used_slowly(&journal).await?;
    let _bounced = engine.output(SITE).await?.bounce(PAGE);
    sleep(Duration::from_millis(100)).await;
    stop_all(&engine).await?;

    check_order(&journal, ["end c", "stop page"])
}

#[tokio::test(start_paused = true)]
async fn a_bounce_inside_during_a_kill_waits_for_the_users_outside() -> TestResult {
    let journal = Journal::new();
    let engine = used_slowly(&journal).await?;
    let nested = engine.output(SITE).await?;
    engine.kill();
    sleep(Duration::from_millis(100)).await;
    let _bounced = nested.bounce(PAGE);
    engine.wait().await?;

    check_order(&journal, ["end c", "stop page"])
}

#[tokio::test]
async fn a_nested_engine_that_is_stuck_lets_its_inputs_go() -> TestResult {
    let engine = test_engine().policy(with_grace(Duration::from_millis(20))).build()?;
    let (release, held) = mpsc::channel::<()>();
    let held = Arc::new(Mutex::new(held));
    engine.install(A, idle()).await?;
    engine.install_nested(SITE, one(PAGE, &deaf(&held)).require(A, FACT)).await?;
    engine.output(SITE).await?.running(PAGE).await?;

    timeout(Duration::from_secs(60), engine.bounce(A)).await??;

    drop(release);
    engine.running(SITE).await?;
    Ok(engine.stop().await?)
}

#[tokio::test]
async fn a_nested_engine_that_is_stuck_keeps_no_kill_from_its_end() -> TestResult {
    let short = Duration::from_millis(20);
    let engine = test_engine().policy(with_grace(short)).build()?;
    let (release, held) = mpsc::channel::<()>();
    let held = Arc::new(Mutex::new(held));
    let site = one(PAGE, &deaf(&held)).manifold(move |site| site.abort_grace(short));
    engine.install_nested(SITE, site).await?;
    engine.output(SITE).await?.running(PAGE).await?;

    let _bounced = engine.bounce(SITE);
    let ended = timeout(Duration::from_secs(60), engine.stop()).await?;

    drop(release);
    assert!(matches!(ended, Err(EngineError::LeftBehind { .. })), "{ended:?}");
    Ok(())
}

#[test]
fn a_kill_ends_though_all_threads_of_the_workers_are_taken() -> TestResult {
    for with_nested in [false, true] {
        let workers =
            tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
        let driver = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let handle = workers.handle().clone();
        let ended = driver.block_on(async {
            let engine = test_engine()
                .workers_on(handle)
                .policy(with_grace(Duration::from_millis(20)))
                .build()?;
            engine.install(A, idle()).await?;
            if with_nested {
                let site = one(PAGE, &idle())
                    .engine(|_| test_engine().policy(with_grace(Duration::from_millis(20))))
                    .import(A, FACT)
                    .manifold(Manifold::beside_engine);
                engine.install_nested(SITE, site).await?;
                engine.output(SITE).await?.running(PAGE).await?;
                engine.running(Name::<()>::new("site.fact")).await?;
            }
            let script = Script::new();
            engine
                .install(
                    B,
                    script
                        .manifold(())
                        .grace(Duration::from_millis(20))
                        .abort_grace(Duration::from_millis(20)),
                )
                .await?;
            engine.running(B).await?;
            script.never_yield();
            script.blocked().await?;
            let ended = timeout(Duration::from_secs(60), engine.stop()).await;
            let report = if ended.is_err() {
                timeout(Duration::from_millis(500), engine.report()).await.map(|r| r.to_string())
            } else {
                Ok(String::new())
            };
            script.release();
            Ok::<_, Box<dyn std::error::Error>>((ended.is_ok(), report))
        })?;
        workers.shutdown_background();
        driver.shutdown_background();
        assert!(ended.0, "with_nested={with_nested}: kill did not end: {:?}", ended.1);
    }
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_nested_engine_takes_no_name_that_it_does_not_own() -> TestResult {
    let engine = test_engine().build()?;
    engine.install(B, idle()).await?;
    engine.install_nested(SITE, one(PAGE, &idle())).await?;

    let refused = engine.replace_nested(SITE, one(PAGE, &idle()).export(PAGE, B)).await;

    let expected = ChangeError::AlreadyInstalled { name: "b".to_owned() };
    assert_eq!(refused, Err(expected));
    engine.uninstall(SITE).await?;
    assert!(engine.report().await.workers.keys().eq(["b"]));
    Ok(clean_kill(engine).await?)
}

#[tokio::test(start_paused = true)]
async fn a_nested_engine_that_takes_itself_out_takes_its_parts_along() -> TestResult {
    let (engine, page) = (test_engine().build()?, Script::new());
    engine.install(A, idle()).await?;
    let site = one(PAGE, &page.manifold(FACT)).import(A, FACT).export(PAGE, B);
    let site = site.manifold(|site| site.filter(|_| Err(Exit::Uninstall)));
    engine.install_nested(SITE, site).await?;
    engine.output(SITE).await?.running(PAGE).await?;

    page.end(Err(Exit::fatal("it is over")));
    wait_for_state(&engine, "site", WorkerState::Absent).await?;
    wait_for_state(&engine, "site.fact", WorkerState::Absent).await?;
    wait_for_state(&engine, "b", WorkerState::Absent).await?;

    engine.install_nested(SITE, one(PAGE, &idle()).export(PAGE, B)).await?;
    engine.running(B).await?;
    Ok(clean_kill(engine).await?)
}

#[tokio::test(start_paused = true)]
async fn two_outputs_of_one_name_can_be_imported_live() -> TestResult {
    let engine = test_engine().build()?;
    let two = Manifold::builder().offers::<(u32, String)>().run(|(), up| async move {
        up.ready((1, String::new())).wait().await;
        Ok(())
    });
    engine.install(A, two).await?;
    let text = Name::<String>::new("text");
    let site = one(PAGE, &idle()).import(A, FACT);

    engine.install_nested(SITE, site.import(A.output::<String>(), text.clone())).await?;

    let nested = engine.output(SITE).await?;
    assert_eq!((nested.output(FACT).await?, nested.output(text).await?), (1, String::new()));
    Ok(clean_kill(engine).await?)
}

#[tokio::test(start_paused = true)]
async fn users_across_a_border_are_told_of_a_loss_at_once() -> TestResult {
    for nested in [false, true] {
        let (engine, a, slow) = (test_engine().build()?, Script::new(), Script::new());
        let (sender, mut told) = tokio::sync::mpsc::unbounded_channel();
        let page = |name: Name<u32>| {
            let sender = sender.clone();
            Manifold::builder().inputs(name).offers::<(u32,)>().run(move |v, up| {
                let sender = sender.clone();
                async move {
                    let stop = up.ready((v,));
                    stop.input_lost().await;
                    sender.send(Instant::now()).ok();
                    stop.wait().await;
                    Ok(())
                }
            })
        };
        engine.install(A, a.manifold(())).await?;
        let user = slow.manifold(PAGE);
        let inside = if nested {
            let page = page(FACT);
            let user = user.clone();
            let site = Nested::new(move || {
                Change::new().install(PAGE, page.clone()).install(OTHER, user.clone())
            })
            .engine(|_| test_engine())
            .import(A, FACT);
            engine.install_nested(SITE, site).await?;
            engine.output(SITE).await?
        } else {
            engine.install(PAGE, page(A)).await?;
            engine.install(OTHER, user).await?;
            engine.clone()
        };
        inside.running(OTHER).await?;
        slow.stop_after(Duration::from_secs(10));
        let began = Instant::now();
        a.end(Err(Exit::failed("x")));
        let at = told.recv().await.ok_or("gone")?;
        assert!(at - began < Duration::from_secs(1), "{:?}, nested: {nested}", at - began);
        clean_kill(engine).await?;
    }
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn users_across_a_border_are_told_of_a_loss_also_while_they_stop() -> TestResult {
    for is_nested in [false, true] {
        let (engine, a) = (test_engine().build()?, Script::new());
        let page = |name: Name<u32>| {
            Manifold::builder().inputs(name).offers::<(u32,)>().run(move |v, up| async move {
                let stop = up.ready((v,));
                owner::only_input_lost(&stop).await;
                Ok(())
            })
        };
        engine.install(A, a.manifold(())).await?;
        let inside = if is_nested {
            engine.install_nested(SITE, one(PAGE, &page(FACT)).import(A, FACT)).await?;
            engine.output(SITE).await?
        } else {
            engine.install(PAGE, page(A)).await?;
            engine.clone()
        };
        inside.running(PAGE).await?;
        let bounced = engine.bounce(A);
        wait_for_state(&inside, "page", WorkerState::Stopping).await?;
        let began = Instant::now();

        a.end(Err(Exit::failed("x")));
        bounced.await?;

        assert!(began.elapsed() < Duration::from_secs(1), "nested: {is_nested}");
        clean_kill(engine).await?;
    }
    Ok(())
}

/// Holds up every worker at one path while it is told to.
#[derive(Clone)]
struct Holding {
    path: &'static str,
    state: Arc<Mutex<(bool, Option<Waker>)>>,
}

impl Holding {
    fn new(path: &'static str) -> Self {
        Self { path, state: Arc::default() }
    }

    fn hold(&self) {
        self.state.lock().0 = true;
    }

    fn release(&self) {
        let (_, waker) = std::mem::take(&mut *self.state.lock());
        waker.into_iter().for_each(Waker::wake);
    }
}

impl Wrap for Holding {
    fn wrap(&self, ctx: &Context, _inputs: &[WrappedInput<'_>]) -> Box<dyn Wrapped> {
        if ctx.path() == self.path { Box::new(self.clone()) } else { Box::new(Self::new("")) }
    }
}

impl Wrapped for Holding {
    fn before(&mut self, _point: WrapPoint, cx: &mut TaskContext<'_>) -> Poll<Option<Outcome>> {
        let mut state = self.state.lock();
        if !state.0 {
            return Poll::Ready(None);
        }
        state.1 = Some(cx.waker().clone());
        Poll::Pending
    }
}

#[tokio::test(start_paused = true)]
async fn users_are_told_of_a_loss_though_the_value_is_back_before_the_sink_has_looked() -> TestResult
{
    let sink = Holding::new("/b");
    let (engine, page) = (test_engine().wrap(Arc::new(sink.clone())).build()?, Script::new());
    let (sender, mut told) = tokio::sync::mpsc::unbounded_channel();
    let user = Manifold::builder().inputs(B).offers::<(u32,)>().run(move |value, up| {
        let sender = sender.clone();
        async move {
            let stop = up.ready((value,));
            owner::only_input_lost(&stop).await;
            sender.send(Instant::now()).map_err(Exit::failed)
        }
    });
    // Its deadline keeps it from waiting for the sink.
    let site = one(PAGE, &page.manifold(())).export(PAGE, B);
    let site = site.engine(|_| test_engine().kill_deadline(Duration::from_secs(1)));
    engine.install_nested(SITE, site).await?;
    engine.install(C, user).await?;
    engine.running(C).await?;
    let mut events = EventRecorder::new(&engine);

    sink.hold();
    page.end(Err(Exit::fatal("it is over")));
    let is_back = |kind: &EventKind| *kind == EventKind::Started { generation: 2 };
    events.wait_for_kind("/site", is_back).await?;
    engine.output(SITE).await?.running(Name::<()>::new("out.b")).await?;
    let began = Instant::now();
    sink.release();
    let at = timeout(Duration::from_secs(60), told.recv()).await?;

    assert_eq!(at, Some(began));
    engine.running(C).await?;
    engine.kill();
    Ok(engine.wait().await?)
}

#[tokio::test(start_paused = true)]
async fn unrelated_workers_of_a_nested_engine_hold_up_no_bounce() -> TestResult {
    let (engine, slow) = (test_engine().build()?, Script::new());
    let (page, other) = (
        Manifold::builder().inputs(FACT).offers::<(u32,)>().run(|v, up| async move {
            up.ready((v,)).wait().await;
            Ok(())
        }),
        slow.manifold(()),
    );
    let site = Nested::new(move || {
        Change::new().install(PAGE, page.clone()).install(OTHER, other.clone())
    })
    .engine(|_| test_engine())
    .import(A, FACT);
    engine.install(A, idle()).await?;
    engine.install_nested(SITE, site).await?;
    let nested = engine.output(SITE).await?;
    nested.running(PAGE).await?;
    nested.running(OTHER).await?;
    slow.stop_after(Duration::from_secs(20));
    let _bounced = engine.bounce(SITE);
    sleep(Duration::from_millis(100)).await;
    let began = Instant::now();

    engine.bounce(A).await?;

    assert!(began.elapsed() < Duration::from_secs(1), "{:?}", began.elapsed());
    Ok(clean_kill(engine).await?)
}

#[tokio::test(start_paused = true)]
async fn an_import_that_is_taken_out_inside_is_waited_for() -> TestResult {
    let (engine, journal) = (test_engine().build()?, Journal::new());
    let page = Script::new().recorded_in(&journal);
    engine.install(A, journal.manifold(())).await?;
    engine.install_nested(SITE, one(PAGE, &page.manifold(FACT)).import(A, FACT)).await?;
    let nested = engine.output(SITE).await?;
    nested.running(PAGE).await?;
    page.stop_after(Duration::from_secs(5));
    journal.take();
    let _gone = nested.uninstall(FACT);
    sleep(Duration::from_millis(100)).await;
    let _bounced = engine.bounce(A);
    sleep(Duration::from_secs(8)).await;

    check_order(&journal, ["end page", "stop a"])?;
    Ok(clean_kill(engine).await?)
}
