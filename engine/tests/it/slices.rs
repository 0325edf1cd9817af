//! What ends while a group of many is applied: such a group is worked on in slices, and messages are
//! taken in between. The clock runs, because a slice is a time.

use crankcase_engine::{Change, ChangeError, Engine, EventKind, Exit, Manifold, Name, WorkerState};
use crankcase_testing::{EventRecorder, Failure, Journal, Script, clean_kill, test_engine};

use crate::{A, B, TestResult, state};

/// Takes many slices to be checked, and many to be applied.
const MANY: usize = 20_000;

/// Returns an engine that remembers every event of such a group.
fn engine() -> Result<Engine, crankcase_engine::ConfigError> {
    test_engine().event_capacity(8 * MANY).build()
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
    let (engine, script) = (engine()?, Script::new());
    engine.install(A, script.manifold(())).await?;
    engine.running(&A).await?;
    let mut events = EventRecorder::new(&engine);

    let group = and_many(Change::new())?.bounce(&A);
    apply_and(&engine, &mut events, group, || script.end(Err("it broke".into()))).await??;
    engine.running(&A).await?;

    assert_eq!(engine.report().await.workers["a"].starts, 2);
    assert!(is_amid(&engine, &mut events, "/a ended, failed: it broke").await?);
    Ok(())
}

#[tokio::test]
async fn a_worker_that_ends_after_it_was_replaced_is_not_waited_for() -> TestResult {
    let (engine, journal, old) = (engine()?, Journal::new(), Script::new());
    engine.install(A, old.manifold(())).await?;
    engine.install(B, journal.manifold(A)).await?;
    engine.running(&B).await?;
    let mut events = EventRecorder::new(&engine);

    let group = and_many(Change::new().replace(A, Script::new().manifold(())))?;
    apply_and(&engine, &mut events, group, || old.end(Ok(()))).await??;
    engine.running(&B).await?;

    assert_eq!(journal.lines(), ["start b 1", "stop b", "end b", "start b 2"]);
    assert!(is_amid(&engine, &mut events, "/a ended, done").await?);
    Ok(())
}

#[tokio::test]
async fn a_worker_that_ends_after_it_was_uninstalled_is_not_waited_for() -> TestResult {
    let (engine, script) = (engine()?, Script::new());
    engine.install(A, script.manifold(())).await?;
    engine.running(&A).await?;
    let mut events = EventRecorder::new(&engine);

    let group = and_many(Change::new().uninstall(&A))?;
    apply_and(&engine, &mut events, group, || script.end(Err("it broke".into()))).await??;

    assert_eq!(state(&engine, "a").await, WorkerState::Absent);
    assert!(is_amid(&engine, &mut events, "/a ended, failed: it broke").await?);
    Ok(())
}

#[tokio::test]
async fn a_worker_that_uninstalls_itself_before_its_bounce_is_applied_is_gone() -> TestResult {
    let (engine, script) = (engine()?, Script::new());
    engine.install(A, script.manifold(())).await?;
    engine.running(&A).await?;
    let mut events = EventRecorder::new(&engine);

    let group = and_many(Change::new())?.bounce(&A);
    apply_and(&engine, &mut events, group, || script.end(Err(Exit::Uninstall))).await??;

    assert_eq!(state(&engine, "a").await, WorkerState::Absent);
    assert!(is_amid(&engine, &mut events, "/a ended, uninstall").await?);
    assert!(!events.lines().contains(&"/a bounced".to_owned()));
    Ok(())
}

#[tokio::test]
async fn a_worker_that_uninstalls_itself_before_its_replacement_is_replaced() -> TestResult {
    let (engine, journal, old) = (engine()?, Journal::new(), Script::new());
    engine.install(A, old.manifold(())).await?;
    engine.running(&A).await?;
    let mut events = EventRecorder::new(&engine);

    let group = and_many(Change::new())?.replace(A, journal.manifold(()));
    apply_and(&engine, &mut events, group, || old.end(Err(Exit::Uninstall))).await??;
    engine.running(&A).await?;

    assert_eq!(journal.lines(), ["start a"]);
    assert!(is_amid(&engine, &mut events, "/a ended, uninstall").await?);
    Ok(())
}

#[tokio::test]
async fn a_replaced_worker_that_uninstalls_itself_does_not_take_the_new_one_out() -> TestResult {
    let (engine, journal, old) = (engine()?, Journal::new(), Script::new());
    engine.install(A, old.manifold(())).await?;
    engine.running(&A).await?;
    let mut events = EventRecorder::new(&engine);

    let group = and_many(Change::new().replace(A, journal.manifold(())))?;
    apply_and(&engine, &mut events, group, || old.end(Err(Exit::Uninstall))).await??;
    engine.running(&A).await?;

    assert_eq!(journal.lines(), ["start a"]);
    assert!(is_amid(&engine, &mut events, "/a ended, uninstall").await?);
    Ok(())
}

#[tokio::test]
async fn a_worker_that_uninstalls_itself_while_a_group_is_checked_is_gone() -> TestResult {
    let (engine, script) = (engine()?, Script::new());
    engine.install(A, script.manifold(())).await?;
    engine.running(&A).await?;
    let mut events = EventRecorder::new(&engine);

    // The answer comes before the group is begun, and the end after its first slice.
    let ended = async {
        engine.graph().await;
        script.end(Err(Exit::Uninstall));
    };
    let group = and_many(Change::new().bounce(&A))?;
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
    let (engine, journal, script) = (engine()?, Journal::new(), Script::new());
    engine.install(A, script.manifold(())).await?;
    engine.running(&A).await?;
    let mut events = EventRecorder::new(&engine);

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
