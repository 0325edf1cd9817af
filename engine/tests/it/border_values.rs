//! What crosses a border: only what its source holds, and no bounce of who has not looked yet.

use std::collections::VecDeque;
use std::sync::Arc;
use std::task::{Context as TaskContext, Poll, Waker};
use std::time::Duration;

use crankcase_engine::testing::{Wrap, WrapPoint, Wrapped, WrappedInput};
use crankcase_engine::{
    Change, Context, Engine, EventKind, Name, Nested, Notice, Outcome, WorkerState,
};
use crankcase_testing::{Journal, clean_kill, test_engine, wait_for_state};
use parking_lot::Mutex;

use crate::{A, B, TestResult};

const SITE: Name<Engine> = Name::new("site");
const FACT: Name<u32> = Name::new("fact");
const PAGE: Name<u32> = Name::new("page");

/// Holds one worker up before one step of its life, while it is closed.
#[derive(Clone, Default)]
struct Door(Arc<Mutex<Closed>>);

#[derive(Default)]
struct Closed {
    before: Option<(&'static str, WrapPoint)>,
    waiting: VecDeque<Waker>,
}

impl Door {
    fn close(&self, path: &'static str, point: WrapPoint) {
        self.0.lock().before = Some((path, point));
    }

    fn open(&self) {
        let mut closed = self.0.lock();
        closed.before = None;
        closed.waiting.drain(..).for_each(Waker::wake);
    }
}

struct AtDoor {
    door: Door,
    path: String,
}

impl Wrap for Door {
    fn wrap(&self, ctx: &Context, _inputs: &[WrappedInput<'_>]) -> Box<dyn Wrapped> {
        Box::new(AtDoor { door: self.clone(), path: ctx.path() })
    }
}

impl Wrapped for AtDoor {
    fn before(&mut self, point: WrapPoint, cx: &mut TaskContext<'_>) -> Poll<Option<Outcome>> {
        let mut closed = self.door.0.lock();
        if closed.before == Some((&*self.path, point)) {
            closed.waiting.push_back(cx.waker().clone());
            return Poll::Pending;
        }
        Poll::Ready(None)
    }
}

/// Returns a nested engine whose `page` uses `fact`.
fn site(journal: &Journal) -> Nested {
    let journal = journal.clone();
    Nested::new(move || Change::new().install(PAGE, journal.manifold(FACT)))
}

#[tokio::test(start_paused = true)]
async fn a_sink_that_has_not_looked_yet_is_not_bounced() -> TestResult {
    let (door, journal) = (Door::default(), Journal::new());
    let engine = test_engine().show_carriers().wrap(Arc::new(door.clone())).build()?;
    engine.install(A, journal.manifold(())).await?;
    let site = site(&journal).engine(|_| test_engine().show_carriers());
    engine.install_nested(SITE, site.import(A, FACT)).await?;
    engine.output(SITE).await?.running(PAGE).await?;

    door.close("/site/fact", WrapPoint::Begin);
    engine.bounce(SITE).await?;
    engine.running(SITE).await?;
    let mut events = engine.events();
    engine.bounce(A).await?;
    wait_for_state(&engine, "site.fact", WorkerState::Running).await?;
    door.open();
    engine.output(SITE).await?.running(PAGE).await?;

    while let Some(notice) = events.try_next() {
        let Notice::Event(event) = notice else { return Err("events were missed".into()) };
        let is_bounce = event.kind == EventKind::Bounced && event.path() != "/a";
        assert!(!is_bounce, "{event}");
    }
    assert_eq!(journal.lines().last().map(String::as_str), Some("start page 2"));
    Ok(clean_kill(engine).await?)
}

#[tokio::test(start_paused = true)]
async fn a_value_whose_source_was_dropped_is_not_offered_any_more() -> TestResult {
    let (door, journal) = (Door::default(), Journal::new());
    let engine = test_engine().show_carriers().wrap(Arc::new(door.clone())).build()?;
    engine.provide(A, 1).await?;
    let deadline = Duration::from_secs(1);
    let site =
        site(&journal).engine(move |_| test_engine().show_carriers().kill_deadline(deadline));
    engine.install_nested(SITE, site.import(A, FACT).export(PAGE, B)).await?;
    engine.running(B).await?;

    // The source does not come to learn that it is told to stop.
    door.close("/site/out.b", WrapPoint::Run);
    engine.apply(Change::new().uninstall(A).bounce(SITE)).await?;
    door.open();
    engine.running(SITE).await?;
    engine.settled().await?;

    wait_for_state(&engine.output(SITE).await?, "page", WorkerState::Waiting).await?;
    let report = engine.report().await;
    assert_eq!(report.workers["b"].state, WorkerState::Missing, "{report}");
    Ok(clean_kill(engine).await?)
}
