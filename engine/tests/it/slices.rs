//! What ends while a group of many is applied: such a group is worked on in slices, and messages are
//! taken in between. So is what many deadlines and many groups lead to. The clock runs, because a
//! slice is a time.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use crankcase_engine::manifold::Up;
use crankcase_engine::{
    Change, ChangeError, Engine, EventKind, Events, Exit, Manifold, Name, Nested, Notice, Outcome,
    WorkerReport, WorkerState,
};
use crankcase_testing::{EventRecorder, Failure, Journal, Script, clean_kill, test_engine};

use crate::{A, B, C, TestResult, state, stop_all, with_grace};

/// Takes many slices to be checked, and many to be applied.
const MANY: usize = 20_000;

/// Returns an engine whose `a` runs, and all that happens from then on, also of such a group.
async fn running(a: &Script) -> Result<(Engine, EventRecorder), Box<dyn std::error::Error>> {
    let engine = test_engine().event_capacity(8 * MANY).build()?;
    engine.install(A, a.manifold(())).await?;
    engine.running(A).await?;
    let events = EventRecorder::new(&engine);
    Ok((engine, events))
}

/// Adds many manifolds that start nothing: each waits for an input that nobody offers.
fn and_many(mut change: Change) -> Result<Change, crankcase_engine::NameError> {
    let waiting: Manifold =
        Manifold::builder().inputs(Name::<()>::new("nobody")).run(|(), up| async move {
            up.ready(()).wait().await;
            Ok(())
        });
    for index in 0..MANY {
        change = change.install(Name::<()>::parse(&format!("n{index}"))?, waiting.clone());
    }
    Ok(change)
}

/// Applies a group, and does something as soon as the first of its manifolds is installed.
async fn apply_and(
    engine: &Engine,
    events: &mut EventRecorder,
    group: Change,
    act: impl FnOnce(),
) -> Result<Result<(), ChangeError>, Failure> {
    let acted = async {
        let is_first = |kind: &EventKind| *kind == EventKind::Installed;
        events.wait_for_kind("/n0", is_first).await.map(|_| act())
    };
    let (applied, acted) = tokio::join!(engine.apply(group), acted);
    acted.map(|()| applied)
}

/// Returns whether a line was written while the group was being applied.
async fn is_amid(
    engine: &Engine,
    events: &mut EventRecorder,
    wanted: &str,
) -> Result<bool, Failure> {
    clean_kill(engine.clone()).await?;
    events.finish().await?;
    let lines = events.lines();
    let at = |wanted: &str| lines.iter().position(|line| line == wanted);
    let last = format!("/n{} installed", MANY - 1);
    Ok(at("/n0 installed") < at(wanted) && at(wanted) < at(&last))
}

#[tokio::test]
async fn a_worker_that_fails_before_its_bounce_is_applied_is_started_once_more() -> TestResult {
    let script = Script::new();
    let (engine, mut events) = running(&script).await?;

    let group = and_many(Change::new())?.bounce(A);
    apply_and(&engine, &mut events, group, || script.end(Err("it broke".into()))).await??;
    engine.running(A).await?;

    assert_eq!(engine.report().await.workers["a"].starts, 2);
    assert!(is_amid(&engine, &mut events, "/a ended, failed: it broke").await?);
    Ok(())
}

#[tokio::test]
async fn a_worker_that_ends_after_it_was_replaced_is_not_waited_for() -> TestResult {
    let (journal, old) = (Journal::new(), Script::new());
    let (engine, mut events) = running(&old).await?;
    engine.install(B, journal.manifold(A)).await?;
    engine.running(B).await?;

    let group = and_many(Change::new().replace(A, Script::new().manifold(())))?;
    apply_and(&engine, &mut events, group, || old.end(Ok(()))).await??;
    engine.running(B).await?;

    assert_eq!(journal.lines(), ["start b 1", "stop b", "end b", "start b 2"]);
    assert!(is_amid(&engine, &mut events, "/a ended, done").await?);
    Ok(())
}

#[tokio::test]
async fn a_worker_that_ends_after_it_was_uninstalled_is_not_waited_for() -> TestResult {
    let script = Script::new();
    let (engine, mut events) = running(&script).await?;

    let group = and_many(Change::new().uninstall(A))?;
    apply_and(&engine, &mut events, group, || script.end(Err("it broke".into()))).await??;

    assert_eq!(state(&engine, "a").await, WorkerState::Absent);
    assert!(is_amid(&engine, &mut events, "/a ended, failed: it broke").await?);
    Ok(())
}

#[tokio::test]
async fn a_worker_that_uninstalls_itself_before_its_bounce_is_applied_is_gone() -> TestResult {
    let script = Script::new();
    let (engine, mut events) = running(&script).await?;

    let group = and_many(Change::new())?.bounce(A);
    apply_and(&engine, &mut events, group, || script.end(Err(Exit::Uninstall))).await??;

    assert_eq!(state(&engine, "a").await, WorkerState::Absent);
    assert!(is_amid(&engine, &mut events, "/a ended, uninstall").await?);
    assert!(!events.lines().contains(&"/a bounced".to_owned()));
    Ok(())
}

#[tokio::test]
async fn a_worker_that_uninstalls_itself_before_its_replacement_is_replaced() -> TestResult {
    let (journal, old) = (Journal::new(), Script::new());
    let (engine, mut events) = running(&old).await?;

    let group = and_many(Change::new())?.replace(A, journal.manifold(()));
    apply_and(&engine, &mut events, group, || old.end(Err(Exit::Uninstall))).await??;
    engine.running(A).await?;

    assert_eq!(journal.lines(), ["start a"]);
    assert!(is_amid(&engine, &mut events, "/a ended, uninstall").await?);
    Ok(())
}

#[tokio::test]
async fn a_replaced_worker_that_uninstalls_itself_does_not_take_the_new_one_out() -> TestResult {
    let (journal, old) = (Journal::new(), Script::new());
    let (engine, mut events) = running(&old).await?;

    let group = and_many(Change::new().replace(A, journal.manifold(())))?;
    apply_and(&engine, &mut events, group, || old.end(Err(Exit::Uninstall))).await??;
    engine.running(A).await?;

    assert_eq!(journal.lines(), ["start a"]);
    assert!(is_amid(&engine, &mut events, "/a ended, uninstall").await?);
    Ok(())
}

#[tokio::test]
async fn a_worker_that_uninstalls_itself_while_a_group_is_checked_is_gone() -> TestResult {
    let script = Script::new();
    let (engine, mut events) = running(&script).await?;

    // The answer comes before the group is begun, and the end after its first slice.
    let ended = async {
        engine.graph().await;
        script.end(Err(Exit::Uninstall));
    };
    let group = and_many(Change::new().bounce(A))?;
    let (applied, ()) = tokio::join!(engine.apply(group), ended);

    applied?;
    assert_eq!(state(&engine, "a").await, WorkerState::Absent);
    clean_kill(engine).await?;
    events.finish().await?;
    let lines = events.lines();
    assert_eq!(lines[0], "/a ended, uninstall");
    assert!(lines.contains(&"/n0 installed".to_owned()));
    assert!(!lines.contains(&"/a bounced".to_owned()));
    Ok(())
}

#[tokio::test]
async fn a_fatal_error_while_a_group_is_applied_starts_nothing_of_it() -> TestResult {
    let (journal, script) = (Journal::new(), Script::new());
    let (engine, mut events) = running(&script).await?;

    let group = and_many(Change::new().install(B, journal.manifold(())))?;
    let fatal = || script.end(Err(Exit::fatal("the disk is gone")));
    let applied = apply_and(&engine, &mut events, group, fatal).await?;

    assert_eq!(applied, Err(ChangeError::Stopped));
    let error = engine.wait().await.err().ok_or("it ended well")?;
    assert_eq!(error.to_string(), "worker /a had a fatal error");
    assert!(journal.lines().is_empty());
    events.finish().await?;
    assert!(!events.lines().contains(&format!("/n{} installed", MANY - 1)));
    Ok(())
}

/// A nested engine with two exports, which takes itself out when its worker fails.
fn site_that_gives_up(page: &Script) -> Nested {
    const PAGE: Name<u32> = Name::new("page");
    let page = page.clone();
    Nested::new(move || Change::new().install(PAGE, page.manifold(())))
        .export(PAGE, B)
        .export(PAGE, C)
        .engine(|_| test_engine())
        .manifold(|site| site.filter(|_| Err(Exit::Uninstall)))
}

#[tokio::test]
async fn what_takes_the_place_of_a_part_stays_when_the_engine_takes_itself_out() -> TestResult {
    let page = Script::new();
    let engine = test_engine().show_carriers().event_capacity(8 * MANY).build()?;
    engine.install_nested(Name::<Engine>::new("site"), site_that_gives_up(&page)).await?;
    engine.running(B).await?;
    let mut events = EventRecorder::new(&engine);
    let stranger = Change::new().install_or_replace(B, Script::new().manifold(()));
    let mut waiting = None;

    let begun = apply_and(&engine, &mut events, and_many(Change::new())?, || {
        waiting = Some(engine.apply(stranger));
        page.end(Err(Exit::fatal("over")));
    });
    begun.await??;
    waiting.ok_or("it was not asked for")?.await?;
    events.wait_for_kind("/c", |kind| *kind == EventKind::Removed).await?;

    let report = engine.report().await;
    let left = report.workers.into_keys().filter(|name| !name.starts_with('n'));
    assert_eq!(left.collect::<Vec<_>>(), ["b"]);
    Ok(clean_kill(engine).await?)
}

async fn idle(up: Up<()>) -> Outcome {
    up.ready(()).wait().await;
    Ok(())
}

#[tokio::test]
async fn a_report_that_is_asked_for_while_a_change_spreads_shows_all_that_it_stops() -> TestResult {
    let engine = test_engine().event_capacity(8 * MANY).build()?;
    engine.install(A, Script::new().offering((1_u32,), ())).await?;
    // The change reaches those last that the report comes to first.
    let mut chain = Change::new();
    for index in 0..MANY {
        let name = Name::<()>::parse(&format!("n{index}"))?;
        let link = Manifold::builder();
        let link = match index + 1 {
            MANY => link.inputs(A).run(|_, up| idle(up)),
            next => link.inputs(Name::<()>::parse(&format!("n{next}"))?).run(|(), up| idle(up)),
        };
        chain = chain.install(name, link);
    }
    engine.apply(chain).await?;
    engine.settled().await?;
    let mut events = EventRecorder::new(&engine);

    let (bounce, report) = (engine.bounce(A), engine.report());
    let (bounced, report) = tokio::join!(bounce, report);

    bounced?;
    let event = events.wait_for_kind("/a", |kind| *kind == EventKind::Bounced).await?;
    let is_old = |worker: &&WorkerReport| worker.last_event < Some(event.sequence);
    let old = report.workers.values().filter(is_old).count();
    assert_eq!((report.workers.len(), old), (MANY + 1, 0));
    Ok(clean_kill(engine).await?)
}

/// Lets so much time pass at once, for all who wait.
async fn pass(time: Duration) {
    tokio::time::pause();
    let mut passing = pin!(tokio::time::advance(time));
    // The time has passed when it was polled; nobody else has run.
    let _yields = poll_fn(|cx| Poll::Ready(passing.as_mut().poll(cx))).await;
    tokio::time::resume();
}

/// Waits for the first event of a kind, and returns how many of it are there then.
async fn first_of(events: &mut Events, kind: &EventKind) -> Result<usize, Failure> {
    let is_of_it = |notice: &Notice| matches!(notice, Notice::Event(event) if event.kind == *kind);
    while let Some(notice) = events.next().await {
        if is_of_it(&notice) {
            let others = std::iter::from_fn(|| events.try_next());
            return Ok(1 + others.filter(is_of_it).count());
        }
    }
    Err(Failure::new("there was none"))
}

/// Returns many manifolds of workers that never come up and do not end by themselves.
fn many_that_hang() -> Result<Change, crankcase_engine::NameError> {
    let hanging: Manifold = Manifold::builder().run(|(), up| async move {
        std::future::pending::<()>().await;
        up.ready(()).wait().await;
        Ok(())
    });
    let mut change = Change::new();
    for index in 0..MANY {
        change = change.install(Name::<()>::parse(&format!("n{index}"))?, hanging.clone());
    }
    Ok(change)
}

#[tokio::test]
async fn many_deadlines_that_end_at_once_are_met_in_slices() -> TestResult {
    let engine =
        test_engine().event_capacity(8 * MANY).policy(with_grace(Duration::ZERO)).build()?;
    engine.apply(many_that_hang()?).await?;
    let mut events = engine.events();

    pass(Duration::from_secs(300)).await;
    let aborted = first_of(&mut events, &EventKind::Aborted).await?;

    assert!(aborted < MANY, "{aborted} in one slice");
    stop_all(&engine).await
}

#[test]
fn many_small_groups_that_take_a_walk_each_are_applied_in_slices() -> TestResult {
    const CHAIN: usize = 2_000;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let name = |index: usize| Name::<()>::parse(&format!("n{index}"));
    let link = |input: Name<()>| {
        Manifold::builder().inputs(input).run(|(), up| async move {
            up.ready(()).wait().await;
            Ok(())
        })
    };
    let engine = runtime.block_on(async {
        let engine = test_engine().build()?;
        let mut chain = Change::new();
        for index in 1..CHAIN {
            chain = chain.install(name(index)?, link(name(index - 1)?));
        }
        engine.apply(chain).await?;
        Ok::<_, Box<dyn std::error::Error>>(engine)
    })?;

    // Asked for from outside the runtime, so that they are all there when the loop gets its turn.
    let mut refusals = Vec::new();
    for _ in 0..200 {
        refusals.push(engine.install(name(0)?, link(name(CHAIN - 1)?)));
    }
    let last = refusals.last_mut().ok_or("there is none")?;
    let is_over = runtime.block_on(async {
        tokio::task::yield_now().await;
        pin!(last).poll(&mut Context::from_waker(Waker::noop())).is_ready()
    });

    assert!(!is_over, "all were refused in one turn");
    for refused in refusals {
        let refused = runtime.block_on(refused);
        assert!(matches!(refused, Err(ChangeError::Cycle { .. })), "{refused:?}");
    }
    Ok(runtime.block_on(clean_kill(engine))?)
}
