//! Workers that have ended while something of them is left (S12): the end is told at once, and
//! "gone" is a second thing.

use std::sync::Arc;
use std::sync::mpsc;
use std::time::Duration;

use crankcase_engine::owner::{Linger, NestedEngine};
use crankcase_engine::{
    Change, ChangeError, EndKind, Engine, EventKind, Exit, Manifold, Metrics, Name, Nested,
    WorkerState,
};
use crankcase_testing::{EventRecorder, Script, clean_kill, test_engine, wait_for_state};
use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::{A, B, C, TestResult, add_one, state};

/// What a test keeps of a worker, and when that is to end.
#[derive(Clone, Default)]
struct Leftover {
    kept: Arc<Mutex<Option<Linger>>>,
    end: Arc<Notify>,
}

impl Leftover {
    /// Returns a worker of which something is left when it is told to fail.
    fn manifold(&self) -> Manifold {
        Manifold::builder().offers::<(u32,)>().run_with(self.clone(), |leftover, (), up| {
            let first = up.context().generation() == 1;
            async move {
                if first {
                    *leftover.kept.lock() = Some(up.context().stop().linger());
                }
                let stop = up.ready((1,));
                tokio::select! {
                    biased;
                    () = stop.wait() => Ok(()),
                    () = leftover.end.notified() => Err("the mount hangs".into()),
                }
            }
        })
    }

    fn let_go(&self) {
        drop(self.kept.lock().take());
    }
}

fn is_end(kind: &EventKind) -> bool {
    matches!(kind, EventKind::Ended { .. })
}

#[tokio::test(start_paused = true)]
async fn an_end_is_told_at_once_whatever_is_left() -> TestResult {
    let (engine, leftover) = (test_engine().build()?, Leftover::default());
    let mut events = EventRecorder::new(&engine);
    engine.install(A, leftover.manifold()).await?;
    engine.install(B, add_one(A)).await?;
    engine.running(B).await?;
    let value = engine.output(A).follow().await?;

    leftover.end.notify_one();
    let ended = events.wait_for_kind("/a", is_end).await?;

    let failed = |text: &str| EventKind::Ended {
        end: EndKind::Failed,
        error: Some(text.to_owned()),
        is_panic: false,
    };
    assert_eq!(ended.kind, failed("the mount hangs"));
    assert_eq!(value.get(), None);
    wait_for_state(&engine, "b", WorkerState::Waiting).await?;
    assert_eq!(state(&engine, "a").await, WorkerState::Lingering);
    let why = engine.why("b").await.ok_or("no b")?.to_string();
    assert_eq!(why, "/b waits for /a, which is lingering: the mount hangs");
    let report = engine.report().await;
    assert_eq!(report.workers["a"].error.as_ref().ok_or("no error")?.text, "the mount hangs");
    leftover.let_go();
    engine.running(B).await?;
    Ok(clean_kill(engine).await?)
}

#[tokio::test(start_paused = true)]
async fn users_are_told_of_the_loss_of_a_worker_that_lingers() -> TestResult {
    let (engine, leftover) = (test_engine().build()?, Leftover::default());
    let mut events = EventRecorder::new(&engine);
    engine.install(A, leftover.manifold()).await?;
    engine.install(B, add_one(A)).await?;
    engine.running(B).await?;

    leftover.end.notify_one();
    events.wait_for_kind("/b", |kind| *kind == EventKind::InputLost).await?;

    leftover.let_go();
    Ok(clean_kill(engine).await?)
}

#[tokio::test(start_paused = true)]
async fn the_next_generation_waits_until_a_worker_is_gone() -> TestResult {
    let (engine, leftover) = (test_engine().build()?, Leftover::default());
    let grace = Duration::from_secs(3600);
    engine.install(A, leftover.manifold().grace(grace)).await?;
    engine.running(A).await?;
    leftover.end.notify_one();
    wait_for_state(&engine, "a", WorkerState::Lingering).await?;

    // Its backoff, a second, is over.
    tokio::time::advance(Duration::from_secs(60)).await;
    let before = engine.report().await.workers["a"].starts;
    leftover.let_go();
    engine.running(A).await?;

    assert_eq!(before, 1);
    assert_eq!(engine.report().await.workers["a"].starts, 2);
    Ok(clean_kill(engine).await?)
}

#[tokio::test(start_paused = true)]
async fn a_backoff_runs_from_the_end_and_not_from_when_the_worker_is_gone() -> TestResult {
    let (engine, leftover) = (test_engine().build()?, Leftover::default());
    engine.install(A, leftover.manifold()).await?;
    engine.running(A).await?;
    leftover.end.notify_one();
    wait_for_state(&engine, "a", WorkerState::Lingering).await?;
    tokio::time::advance(Duration::from_millis(900)).await;
    let began = tokio::time::Instant::now();

    leftover.let_go();
    engine.running(A).await?;

    let waited = began.elapsed();
    assert!(waited <= Duration::from_millis(101), "{waited:?}");
    Ok(clean_kill(engine).await?)
}

#[tokio::test(start_paused = true)]
async fn what_outlives_both_graces_of_an_ended_worker_is_stuck() -> TestResult {
    let (engine, leftover) = (test_engine().build()?, Leftover::default());
    let mut events = EventRecorder::new(&engine);
    engine.install(A, leftover.manifold()).await?;
    engine.running(A).await?;

    leftover.end.notify_one();
    events.wait_for_kind("/a", |kind| *kind == EventKind::Stuck).await?;

    let report = engine.report().await;
    assert_eq!(report.left_behind, ["/a"]);
    assert_eq!(report.workers["a"].state, WorkerState::Stuck);
    assert!(!report.workers["a"].was_aborted, "there was no future to drop");
    let why = engine.why("a").await.ok_or("no a")?.to_string();
    assert_eq!(why, "/a is stuck: the mount hangs");
    leftover.let_go();
    events.wait_for_kind("/a", |kind| *kind == EventKind::Gone).await?;
    engine.running(A).await?;
    Ok(clean_kill(engine).await?)
}

#[tokio::test(start_paused = true)]
async fn a_kill_ends_though_something_is_left_of_a_worker_that_had_ended() -> TestResult {
    let (engine, leftover) = (test_engine().build()?, Leftover::default());
    engine.install(A, leftover.manifold()).await?;
    engine.running(A).await?;
    leftover.end.notify_one();
    wait_for_state(&engine, "a", WorkerState::Lingering).await?;

    engine.kill();
    drop(engine.wait().await);

    assert_eq!(engine.report().await.left_behind, ["/a"]);
    leftover.let_go();
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_call_waits_until_a_worker_that_has_ended_is_gone() -> TestResult {
    let (engine, leftover) = (test_engine().build()?, Leftover::default());
    engine.install(A, leftover.manifold()).await?;
    engine.running(A).await?;
    leftover.end.notify_one();
    wait_for_state(&engine, "a", WorkerState::Lingering).await?;

    let mut parked = engine.park(A);
    engine.provide(B, 1).await?;
    let is_early = futures_lite_poll(&mut parked).is_some();
    leftover.let_go();
    parked.await?;

    assert!(!is_early);
    assert_eq!(state(&engine, "a").await, WorkerState::Parked);
    Ok(clean_kill(engine).await?)
}

/// Looks once whether a future is ready.
fn futures_lite_poll<F: Future + Unpin>(future: &mut F) -> Option<F::Output> {
    let mut cx = std::task::Context::from_waker(std::task::Waker::noop());
    match std::pin::Pin::new(future).poll(&mut cx) {
        std::task::Poll::Ready(output) => Some(output),
        std::task::Poll::Pending => None,
    }
}

#[tokio::test(start_paused = true)]
async fn a_name_whose_worker_has_taken_itself_out_is_free_whatever_is_left() -> TestResult {
    const TEXT: Name<String> = Name::new("a");
    let (engine, leftover) = (test_engine().build()?, Leftover::default());
    engine.install(A, leftover.manifold().filter(|_| Err(Exit::Uninstall))).await?;
    engine.running(A).await?;
    leftover.end.notify_one();
    wait_for_state(&engine, "a", WorkerState::Lingering).await?;

    engine.install(B, Script::new().manifold(TEXT)).await?;
    let provided = engine.provide(TEXT, "seven".to_owned());
    let following = engine.output(TEXT).follow().await;
    leftover.let_go();
    provided.await?;

    assert_eq!(following?.value().await?, "seven");
    engine.running(B).await?;
    Ok(clean_kill(engine).await?)
}

#[tokio::test(start_paused = true)]
async fn a_call_on_a_stuck_worker_says_so() -> TestResult {
    let (engine, leftover) = (test_engine().build()?, Leftover::default());
    let mut events = EventRecorder::new(&engine);
    engine.install(A, leftover.manifold()).await?;
    engine.running(A).await?;
    leftover.end.notify_one();
    events.wait_for_kind("/a", |kind| *kind == EventKind::Stuck).await?;

    let stuck = Err(ChangeError::Stuck { name: "a".to_owned() });
    assert_eq!(engine.bounce(A).await, stuck);
    assert_eq!(engine.park(A).await, stuck);
    assert_eq!(engine.replace(A, leftover.manifold()).await, stuck);
    assert_eq!(engine.uninstall(A).await, stuck);

    leftover.let_go();
    Ok(clean_kill(engine).await?)
}

#[tokio::test]
async fn blocking_work_that_hangs_does_not_keep_the_error_of_its_worker() -> TestResult {
    let engine = test_engine().build()?;
    let mut events = EventRecorder::new(&engine);
    let (release, held) = mpsc::channel::<()>();
    let held = Arc::new(Mutex::new(held));
    let hangs = Manifold::builder().offers::<(u32,)>().run_with(held, |held, (), up| async move {
        let stop = up.ready((1,));
        let mut work = std::pin::pin!(stop.blocking(move || held.lock().recv().ok()));
        tokio::select! {
            biased;
            _ = &mut work => Ok(()),
            () = std::future::ready(()) => Err("the mount hangs".into()),
        }
    });

    engine.install(A, hangs).await?;
    let ended = events.wait_for_kind("/a", is_end).await?;

    assert!(ended.to_string().ends_with("ended, failed: the mount hangs"), "{ended}");
    drop(release);
    engine.kill();
    Ok(engine.wait().await?)
}

#[tokio::test(start_paused = true)]
async fn a_nested_engine_with_a_fatal_error_has_ended_though_a_worker_of_it_is_stuck() -> TestResult
{
    const SITE: Name<()> = Name::new("site");
    const DISK: Name<u32> = Name::new("disk");
    let (engine, disk, leftover) = (test_engine().build()?, Script::new(), Leftover::default());
    let mut events = EventRecorder::new(&engine);
    let config = (disk.manifold(()), leftover.manifold());
    let site = Manifold::builder().start_with(config, |(disk, keeps), (), ctx| async move {
        let nested = test_engine().build_nested(&ctx)?;
        nested.install(DISK, disk).await?;
        nested.install(A, keeps).await?;
        nested.running(A).await?;
        Ok::<NestedEngine, Exit>(nested)
    });
    engine.install(SITE, site.build().grace(Duration::from_secs(3600))).await?;
    engine.running(SITE).await?;

    disk.end(Err(Exit::fatal("it is full")));
    let ended = events.wait_for_kind("/site", is_end).await?;
    let stuck = events.wait_for_kind("/site", |kind| *kind == EventKind::Stuck).await?;

    let expected = "ended, failed: worker /site/disk had a fatal error: it is full";
    assert!(ended.to_string().ends_with(expected), "{ended}");
    assert!(ended.sequence < stuck.sequence);
    leftover.let_go();
    engine.kill();
    drop(engine.wait().await);
    Ok(())
}

const FAILING: Name<()> = Name::new("site");

/// Returns a manifold of a nested engine. The engine has a fatal error when its disk ends, and leaves
/// its workers `a` and `b` behind.
fn failing_site(disk: &Script, left: [&Leftover; 2]) -> Manifold {
    const DISK: Name<u32> = Name::new("disk");
    let config = [disk.manifold(()), left[0].manifold(), left[1].manifold()];
    let site = Manifold::builder().start_with(config, |manifolds, (), ctx| async move {
        let nested = test_engine().build_nested(&ctx)?;
        for (name, manifold) in [DISK, A, B].into_iter().zip(manifolds) {
            nested.install(name.clone(), manifold).await?;
            nested.running(name.clone()).await?;
        }
        Ok::<NestedEngine, Exit>(nested)
    });
    site.build().grace(Duration::from_secs(3600))
}

#[tokio::test(start_paused = true)]
async fn an_engine_names_nobody_who_was_gone_when_its_nested_engine_was_started_again() -> TestResult
{
    let (engine, disk) = (test_engine().build()?, Script::new());
    let [slow, stuck] = [Leftover::default(), Leftover::default()];
    let mut events = EventRecorder::new(&engine);
    engine.install(FAILING, failing_site(&disk, [&slow, &stuck])).await?;
    engine.running(FAILING).await?;
    disk.end(Err(Exit::fatal("it is full")));
    events.wait_for_kind("/site", |kind| *kind == EventKind::Lingering).await?;
    [&slow, &stuck].into_iter().for_each(Leftover::let_go);
    events.wait_for_kind("/site", |kind| *kind == EventKind::Started { generation: 2 }).await?;
    slow.let_go();

    let ended = engine.stop().await;

    stuck.let_go();
    let text = "workers of engine / did not end in time and were left behind: /site/b";
    assert_eq!(ended.err().ok_or("it ended well")?.to_string(), text);
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn an_engine_names_nobody_who_is_gone_since_its_nested_engine_has_ended() -> TestResult {
    const AROUND: Name<()> = Name::new("around");
    let (engine, disk) = (test_engine().build()?, Script::new());
    let [slow, stuck] = [Leftover::default(), Leftover::default()];
    let mut events = EventRecorder::new(&engine);
    let inner = failing_site(&disk, [&slow, &stuck]);
    let around = Manifold::builder().start_with(inner, |inner, (), ctx| async move {
        let nested = test_engine().build_nested(&ctx)?;
        nested.install(FAILING, inner).await?;
        nested.running(FAILING).await?;
        Ok::<NestedEngine, Exit>(nested)
    });
    engine.install(AROUND, around.build().grace(Duration::from_secs(7200))).await?;
    engine.running(AROUND).await?;
    disk.end(Err(Exit::fatal("it is full")));
    events.wait_for_kind("/around/site", |kind| *kind == EventKind::Stuck).await?;

    slow.let_go();
    let ended = engine.stop().await;

    stuck.let_go();
    let text = "workers of engine / did not end in time and were left behind: /around/site/b";
    assert_eq!(ended.err().ok_or("it ended well")?.to_string(), text);
    assert_eq!(engine.report().await.left_behind, ["/around/site/b"]);
    Ok(())
}

#[tokio::test(start_paused = true)]
#[expect(
    clippy::disallowed_methods,
    reason = "the task runs between the worker's end and the loop"
)]
async fn an_engine_does_not_name_an_ended_nested_engine_that_is_gone_and_unread() -> TestResult {
    let (engine, disk) = (test_engine().build()?, Script::new());
    let [one, other] = [Leftover::default(), Leftover::default()];
    let mut events = EventRecorder::new(&engine);
    let last = Manifold::builder().run_with(other.clone(), |other, (), up| async move {
        up.ready(()).wait().await;
        // The worker's own task tells the machine of its end, and with it that of the engine.
        drop(tokio::spawn(async move { other.let_go() }));
        Ok(())
    });
    engine.install(FAILING, failing_site(&disk, [&one, &other])).await?;
    engine.install(Name::<()>::new("last"), last).await?;
    engine.running(FAILING).await?;
    disk.end(Err(Exit::fatal("it is full")));
    events.wait_for_kind("/site", |kind| *kind == EventKind::Stuck).await?;
    one.let_go();

    let ended = engine.stop().await;

    ended?;
    assert_eq!(engine.report().await.left_behind, [""; 0]);
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_nested_engine_that_takes_itself_out_makes_room_whatever_is_left_of_it() -> TestResult {
    const SITE: Name<Engine> = Name::new("site");
    let (engine, disk, leftover) = (test_engine().build()?, Script::new(), Leftover::default());
    let contents = [disk.manifold(()), leftover.manifold()];
    let site = Nested::new(move || {
        let [disk, keeps] = contents.clone();
        Change::new().install(A, keeps).install(B, disk)
    });
    let site = site.engine(|_| test_engine()).import(A, C);
    let site = site.manifold(|site| site.filter(|_| Err(Exit::Uninstall)));
    engine.install_nested(SITE, site).await?;
    engine.output(SITE).await?.running(A).await?;
    disk.end(Err(Exit::fatal("it is full")));
    wait_for_state(&engine, "site", WorkerState::Lingering).await?;

    let installed = engine.install(SITE.output::<()>(), Script::new().manifold(()));
    wait_for_state(&engine, "site.c", WorkerState::Absent).await?;
    leftover.let_go();
    installed.await?;

    engine.running(SITE).await?;
    Ok(clean_kill(engine).await?)
}

/// Remembers how workers have ended.
#[derive(Default)]
struct Ends(Mutex<Vec<EndKind>>);

impl Metrics for Ends {
    fn worker_ended(&self, _path: &str, end: EndKind, _lived: Duration) {
        self.0.lock().push(end);
    }
}

async fn end_of(engine: &Engine, ends: &Ends, events: &mut EventRecorder) -> TestResult {
    let ended = events.wait_for_kind("/a", is_end).await?;
    let EventKind::Ended { end, .. } = ended.kind else { return Err("no end".into()) };
    assert_eq!(ends.0.lock().last(), Some(&end), "the metrics say what the event says");
    assert_eq!(end, EndKind::Failed);
    assert!(engine.report().await.workers["a"].failures > 0);
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn metrics_call_a_start_that_took_too_long_failed() -> TestResult {
    let (ends, script) = (Arc::new(Ends::default()), Script::new());
    let metrics = Arc::clone(&ends) as Arc<dyn Metrics>;
    let engine = test_engine().metrics(metrics).build()?;
    let mut events = EventRecorder::new(&engine);
    script.hold_start();

    engine.install(A, script.manifold(())).await?;

    end_of(&engine, &ends, &mut events).await?;
    Ok(clean_kill(engine).await?)
}
