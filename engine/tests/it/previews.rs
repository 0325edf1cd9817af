//! Previews: each tells what the change then does.

use crankcase_engine::{Change, Engine, EventKind, Name};
use crankcase_testing::{EventRecorder, Script, clean_kill, test_engine};

use crate::changes::{chain, graph, idle};
use crate::{A, B, C, TestResult, add_one};

/// Previews a change, applies it, and compares what was told with what happened.
async fn preview_comes_true(engine: &Engine, change: [Change; 2]) -> TestResult {
    let [previewed, applied] = change;
    let before = graph(engine).await?;
    let preview = engine.preview(previewed).await?;
    assert_eq!(graph(engine).await?, before);
    let mut events = EventRecorder::new(engine);

    engine.apply(applied).await?;
    engine.settled().await?;
    clean_kill(engine.clone()).await?;

    events.finish().await?;
    let killed = events.seen().iter().take_while(|event| event.kind != EventKind::Killed);
    let happened: Vec<_> = killed.collect();
    let paths = |is_wanted: &dyn Fn(&EventKind) -> bool| {
        let wanted = happened.iter().filter(|event| is_wanted(&event.kind));
        let mut paths: Vec<_> = wanted.map(|event| event.path()).collect();
        paths.sort_unstable();
        paths
    };
    let stopped = paths(&|kind| *kind == EventKind::Stopping);
    let mut told = [preview.bounced.clone(), preview.stopped.clone()].concat();
    told.sort_unstable();
    assert_eq!(told, stopped);
    assert_eq!(preview.uninstalled, paths(&|kind| *kind == EventKind::Uninstalled));
    assert_eq!(preview.installed, paths(&|kind| *kind == EventKind::Installed));
    assert_eq!(preview.replaced, paths(&|kind| *kind == EventKind::Replaced));
    for path in &preview.bounced {
        let restarted = |kind: &EventKind| matches!(kind, EventKind::Starting { .. });
        assert!(paths(&restarted).contains(path), "{path} was not started again");
    }
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn the_preview_of_a_bounce_comes_true() -> TestResult {
    let change = || Change::new().bounce(A);
    preview_comes_true(&chain().await?, [change(), change()]).await
}

#[tokio::test(start_paused = true)]
async fn the_preview_of_a_replace_comes_true() -> TestResult {
    let change = || Change::new().replace(B, add_one(A));
    preview_comes_true(&chain().await?, [change(), change()]).await
}

#[tokio::test(start_paused = true)]
async fn the_preview_of_an_uninstall_with_dependents_comes_true() -> TestResult {
    let change = || Change::new().uninstall_with_dependents(B);
    preview_comes_true(&chain().await?, [change(), change()]).await
}

#[tokio::test(start_paused = true)]
async fn the_preview_of_an_optional_input_that_comes_comes_true() -> TestResult {
    let engine = test_engine().build()?;
    engine.install(B, Script::new().manifold(A.optional())).await?;
    engine.install(C, add_one(B)).await?;
    engine.running(C).await?;
    let change = || Change::new().install(A, idle());
    preview_comes_true(&engine, [change(), change()]).await
}

#[tokio::test(start_paused = true)]
async fn the_preview_of_an_uninstall_tells_who_stops_for_good() -> TestResult {
    let engine = chain().await?;

    let preview = engine.preview(Change::new().uninstall(B)).await?;

    assert_eq!(preview.to_string(), "uninstall /b\nstop /b\nstop /c\n");
    Ok(clean_kill(engine).await?)
}

#[tokio::test(start_paused = true)]
async fn the_preview_of_a_swap_tells_who_comes_back_on_other_inputs() -> TestResult {
    let spare = || Name::new("spare");
    let swap = || Change::new().uninstall(A).replace(B, add_one(spare()));

    let change = || swap().install(spare(), idle());
    let preview = chain().await?.preview(change()).await?;
    let expected = "install /spare\nreplace /b\nuninstall /a\nstop /a\nbounce /b\nbounce /c\n";
    assert_eq!(preview.to_string(), expected);
    preview_comes_true(&chain().await?, [change(), change()]).await?;

    // What they would have instead is not there, or would not be.
    let lost = Name::new("lost");
    for change in [swap(), swap().install(spare(), add_one(lost))] {
        let preview = chain().await?.preview(change).await?;
        assert_eq!((preview.bounced, preview.stopped.len()), (vec![], 3));
    }
    Ok(())
}

/// Returns an engine in which C runs without B, which waits for A.
async fn waiting() -> Result<Engine, Box<dyn std::error::Error>> {
    let engine = test_engine().build()?;
    engine.install(B, add_one(A)).await?;
    engine.install(C, Script::new().manifold(B.optional())).await?;
    engine.running(C).await?;
    Ok(engine)
}

#[tokio::test(start_paused = true)]
async fn a_preview_tells_of_what_comes_through_others() -> TestResult {
    let change = || Change::new().install(A, idle());

    let preview = waiting().await?.preview(change()).await?;

    assert_eq!(preview.bounced, ["/c"]);
    preview_comes_true(&waiting().await?, [change(), change()]).await
}

#[tokio::test(start_paused = true)]
async fn a_preview_tells_of_no_bounce_by_what_still_waits() -> TestResult {
    let parked = async || -> Result<Engine, Box<dyn std::error::Error>> {
        let engine = waiting().await?;
        engine.park(B).await?;
        Ok(engine)
    };
    for change in [|| Change::new().bounce(B), || Change::new().replace(B, add_one(A))] {
        let preview = waiting().await?.preview(change()).await?;
        assert_eq!((preview.bounced, preview.stopped), (vec![], vec![]));
        preview_comes_true(&waiting().await?, [change(), change()]).await?;
    }
    let change = || Change::new().unpark(B);
    let preview = parked().await?.preview(change()).await?;
    assert_eq!((preview.bounced, preview.stopped), (vec![], vec![]));
    preview_comes_true(&parked().await?, [change(), change()]).await
}

#[tokio::test(start_paused = true)]
async fn a_preview_tells_that_a_group_starts_again_what_it_replaces() -> TestResult {
    let engine = async || -> Result<Engine, Box<dyn std::error::Error>> {
        let engine = test_engine().build()?;
        engine.install(C, idle()).await?;
        engine.running(C).await?;
        Ok(engine)
    };
    let change = || Change::new().install(A, idle()).install(B, add_one(A)).replace(C, add_one(B));

    let preview = engine().await?.preview(change()).await?;

    assert_eq!((preview.bounced, preview.stopped), (vec!["/c".to_owned()], vec![]));
    preview_comes_true(&engine().await?, [change(), change()]).await
}

#[tokio::test(start_paused = true)]
async fn a_preview_changes_nothing_whenever_it_is_taken() -> TestResult {
    let engine = test_engine().build()?;
    engine.install(B, add_one(A)).await?;
    let (installed, bounced) = (engine.install(A, idle()), engine.bounce(B));
    let preview = engine.preview(Change::new().uninstall(A)).await?;
    installed.await?;
    bounced.await?;

    engine.running(B).await?;

    assert_eq!(preview.uninstalled, ["/a"]);
    Ok(clean_kill(engine).await?)
}
