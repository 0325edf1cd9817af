//! What stands around workers: it sees each of them, and can hold it up or end it.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context as TaskContext, Poll};
use std::time::Duration;

use crankcase_engine::testing::{Wrap, WrapPoint, Wrapped, WrappedInput};
use crankcase_engine::{Context, EndKind, Engine, EventKind, Manifold, Metrics, Name, Outcome};
use crankcase_testing::{EventRecorder, Journal, clean_kill, test_engine};
use parking_lot::Mutex;

use crate::{TestResult, stop_all, with_grace};

const BASE: Name<u32> = Name::new("base");
const TOP: Name<u32> = Name::new("top");
const SITE: Name<()> = Name::new("site");

/// Says what happens before each step of each worker, and notes what it sees.
struct Around {
    journal: Journal,
    judge: fn(u32, WrapPoint) -> Poll<Option<Outcome>>,
}

struct Worker {
    path: String,
    generation: u32,
    last: Option<WrapPoint>,
    journal: Journal,
    judge: fn(u32, WrapPoint) -> Poll<Option<Outcome>>,
}

impl Wrap for Around {
    fn wrap(&self, ctx: &Context, inputs: &[WrappedInput<'_>]) -> Box<dyn Wrapped> {
        let inputs: Vec<_> =
            inputs.iter().map(|input| (input.name, input.need, input.is_present)).collect();
        self.journal.note(format!("wrap {} {inputs:?}", ctx.path()));
        Box::new(Worker {
            path: ctx.path(),
            generation: ctx.generation(),
            last: None,
            journal: self.journal.clone(),
            judge: self.judge,
        })
    }
}

impl Wrapped for Worker {
    fn before(&mut self, point: WrapPoint, _cx: &mut TaskContext<'_>) -> Poll<Option<Outcome>> {
        if self.last.replace(point) != Some(point) {
            self.journal.note(format!("{} {point:?}", self.path));
        }
        (self.judge)(self.generation, point)
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.journal.note(format!("unwrap {}", self.path));
    }
}

fn engine(
    journal: &Journal,
    judge: fn(u32, WrapPoint) -> Poll<Option<Outcome>>,
) -> Result<Engine, Box<dyn std::error::Error>> {
    Ok(test_engine().wrap(Arc::new(Around { journal: journal.clone(), judge })).build()?)
}

#[tokio::test(start_paused = true)]
async fn every_step_of_a_worker_is_asked_about() -> TestResult {
    let journal = Journal::new();
    let engine = engine(&journal, |_, _| Poll::Ready(None))?;

    engine.install(BASE, journal.manifold(())).await?;
    engine.running(BASE).await?;
    clean_kill(engine).await?;

    let lines = [
        "wrap /base []",
        "/base Begin",
        "/base Start",
        "start base",
        "/base Run",
        "stop base",
        "end base",
        "unwrap /base",
    ];
    assert_eq!(journal.lines(), lines);
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn the_declared_inputs_are_seen() -> TestResult {
    let journal = Journal::new();
    let engine = engine(&journal, |_, _| Poll::Ready(None))?;

    engine.install(TOP, journal.manifold(BASE.optional())).await?;
    engine.running(TOP).await?;
    engine.install(BASE, journal.manifold(())).await?;
    engine.settled().await?;

    let wraps: Vec<_> =
        journal.lines().into_iter().filter(|line| line.starts_with("wrap /top")).collect();
    let expected =
        [r#"wrap /top [("base", "optional", false)]"#, r#"wrap /top [("base", "optional", true)]"#];
    assert_eq!(wraps, expected);
    Ok(clean_kill(engine).await?)
}

#[tokio::test(start_paused = true)]
async fn the_inputs_of_checks_are_seen_too() -> TestResult {
    let journal = Journal::new();
    let engine = engine(&journal, |_, _| Poll::Ready(None))?;
    let inner = journal.manifold(BASE.optional()).admitted(SITE, |(), _| Ok(()));
    let outer = inner.admitted(SITE.optional(), |_, _| Ok(()));

    engine.install(SITE, journal.manifold(())).await?;
    engine.install(TOP, outer).await?;
    engine.running(TOP).await?;

    let line = r#"wrap /top [("base", "optional", false), ("site", "required", true)]"#;
    assert!(journal.lines().contains(&line.to_owned()), "{journal:?}");
    Ok(clean_kill(engine).await?)
}

#[tokio::test(start_paused = true)]
async fn an_outcome_from_around_ends_the_worker() -> TestResult {
    let journal = Journal::new();
    let engine = engine(&journal, |generation, point| {
        Poll::Ready(
            (generation == 1 && point == WrapPoint::Run).then(|| Err("it was ended".into())),
        )
    })?;
    let mut events = EventRecorder::new(&engine);

    engine.install(BASE, journal.manifold(())).await?;
    events.wait_for(|event| event.kind == EventKind::Started { generation: 2 }).await?;

    assert!(events.lines().contains(&"/base ended, failed: it was ended".to_owned()));
    Ok(clean_kill(engine).await?)
}

#[tokio::test(start_paused = true)]
async fn a_worker_that_is_held_up_before_its_start_has_its_start_timeout() -> TestResult {
    let journal = Journal::new();
    let engine = engine(&journal, |generation, _| match generation {
        1 => Poll::Pending,
        _ => Poll::Ready(None),
    })?;
    let mut events = EventRecorder::new(&engine);

    engine.install(BASE, journal.manifold(())).await?;
    events.wait_for(|event| event.kind == EventKind::Started { generation: 2 }).await?;

    let ended = "/base ended, failed: its start took longer than 5m".to_owned();
    assert!(events.lines().contains(&ended), "{:?}", events.lines());
    assert_eq!(journal.starts("base"), 1);
    Ok(clean_kill(engine).await?)
}

#[tokio::test(start_paused = true)]
async fn a_worker_that_is_held_up_when_it_is_told_to_stop_is_dropped_after_its_grace() -> TestResult
{
    let journal = Journal::new();
    let held: Arc<Mutex<bool>> = Arc::default();
    let engine = test_engine().wrap(Arc::new(Holds(Arc::clone(&held)))).build()?;
    engine.install(BASE, journal.manifold(())).await?;
    engine.running(BASE).await?;
    let began = tokio::time::Instant::now();

    *held.lock() = true;
    stop_all(&engine).await?;

    assert_eq!(began.elapsed(), Duration::from_secs(30));
    assert_eq!(journal.lines(), ["start base"]);
    Ok(())
}

/// Holds every worker up while its flag is set.
struct Holds(Arc<Mutex<bool>>);

impl Wrap for Holds {
    fn wrap(&self, _ctx: &Context, _inputs: &[WrappedInput<'_>]) -> Box<dyn Wrapped> {
        Box::new(Self(Arc::clone(&self.0)))
    }
}

impl Wrapped for Holds {
    fn before(&mut self, _point: WrapPoint, _cx: &mut TaskContext<'_>) -> Poll<Option<Outcome>> {
        if *self.0.lock() { Poll::Pending } else { Poll::Ready(None) }
    }
}

#[tokio::test(start_paused = true)]
async fn a_panic_from_around_is_the_workers() -> TestResult {
    let journal = Journal::new();
    let engine = engine(&journal, |generation, point| {
        assert!(generation > 1 || point != WrapPoint::Start, "it cannot be");
        Poll::Ready(None)
    })?;
    let mut events = EventRecorder::new(&engine);

    engine.install(BASE, journal.manifold(())).await?;
    events.wait_for(|event| event.kind == EventKind::Started { generation: 2 }).await?;

    let ended = "/base ended, failed: panicked: it cannot be".to_owned();
    assert!(events.lines().contains(&ended), "{:?}", events.lines());
    Ok(clean_kill(engine).await?)
}

/// The run of a worker whose drop panics, also while something else does.
struct Bomb {
    journal: Journal,
    ends_by_itself: bool,
}

impl Future for Bomb {
    type Output = Outcome;

    fn poll(self: Pin<&mut Self>, _cx: &mut TaskContext<'_>) -> Poll<Outcome> {
        if self.ends_by_itself { Poll::Ready(Ok(())) } else { Poll::Pending }
    }
}

impl Drop for Bomb {
    fn drop(&mut self) {
        self.journal.note("future dropped");
        panic!("future");
    }
}

fn bomb(journal: &Journal, ends_by_itself: bool) -> Manifold {
    let journal = journal.clone();
    Manifold::builder().offers::<(u32,)>().run(move |(), up| {
        drop(up.ready((1,)));
        Bomb { journal: journal.clone(), ends_by_itself }
    })
}

/// Puts something around workers whose drop panics, too, and notes their ends.
struct Armed(Journal);

struct Fuse(Journal);

impl Wrap for Armed {
    fn wrap(&self, _ctx: &Context, _inputs: &[WrappedInput<'_>]) -> Box<dyn Wrapped> {
        Box::new(Fuse(self.0.clone()))
    }
}

impl Wrapped for Fuse {
    fn before(&mut self, _point: WrapPoint, _cx: &mut TaskContext<'_>) -> Poll<Option<Outcome>> {
        Poll::Ready(None)
    }
}

impl Drop for Fuse {
    fn drop(&mut self) {
        self.0.note("unwrapped");
        panic!("around");
    }
}

impl Metrics for Armed {
    fn worker_ended(&self, _path: &str, _end: EndKind, _lived: Duration) {
        self.0.note("ended");
    }
}

#[tokio::test(start_paused = true)]
async fn what_stands_around_a_worker_whose_drop_panics_is_dropped_before_its_end_is_told()
-> TestResult {
    for ends_by_itself in [true, false] {
        let (journal, engine) =
            (Journal::new(), test_engine().policy(with_grace(Duration::from_secs(1))));
        let engine = engine.wrap(Arc::new(Armed(journal.clone())));
        let engine = engine.metrics(Arc::new(Armed(journal.clone()))).build()?;
        let mut events = EventRecorder::new(&engine);

        engine.install(BASE, bomb(&journal, ends_by_itself)).await?;
        if ends_by_itself {
            events.wait_for_kind("/base", |kind| matches!(kind, EventKind::Ended { .. })).await?;
        } else {
            engine.running(BASE).await?;
        }
        stop_all(&engine).await?;
        events.finish().await?;

        assert_eq!(journal.lines(), ["future dropped", "unwrapped", "ended"]);
        let ended = events.lines().into_iter().find(|line| line.starts_with("/base ended"));
        let expected = ["/base ended, stopped", "/base ended, failed: panicked: future"];
        assert_eq!(ended.as_deref(), Some(expected[usize::from(ends_by_itself)]));
    }
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn workers_of_nested_engines_are_wrapped_too() -> TestResult {
    let journal = Journal::new();
    let engine = engine(&journal, |_, _| Poll::Ready(None))?;
    let inner = Journal::new();
    let site = Manifold::builder()
        .start_with(inner, |inner, (), ctx| async move {
            let nested = test_engine().build_nested(&ctx)?;
            nested.install(BASE, inner.manifold(())).await?;
            nested.running(BASE).await?;
            Ok(nested)
        })
        .build();

    engine.install(SITE, site).await?;
    engine.running(SITE).await?;

    assert!(journal.lines().contains(&"wrap /site/base []".to_owned()));
    Ok(clean_kill(engine).await?)
}

#[tokio::test]
async fn a_blocking_worker_is_asked_before_its_function_is_called() -> TestResult {
    let journal = Journal::new();
    let engine = engine(&journal, |generation, point| {
        let is_first = generation == 1 && point == WrapPoint::Begin;
        Poll::Ready(is_first.then_some(Err(crankcase_engine::Exit::Bounce)))
    })?;
    let blocking = Manifold::builder().offers::<(u32,)>().run_blocking(|(), up| {
        let generation = up.context().generation();
        up.ready((generation,)).wait_blocking();
        Ok(())
    });

    engine.install(BASE, blocking).await?;

    assert_eq!(engine.output(BASE).await?, 2);
    Ok(clean_kill(engine).await?)
}
