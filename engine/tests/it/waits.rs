//! What workers wait for apart from their inputs.

use std::time::Duration;

use crankcase_engine::{
    Change, ChangeError, Engine, EngineInput, EventKind, Manifold, Name, Nested,
};
use crankcase_testing::{EventRecorder, Journal, Script, clean_kill, test_engine};
use tokio::sync::watch;

use crate::{A, B, C, TestResult};

const ALPHA: Name<u32> = Name::new("alpha");
const BETA: Name<u32> = Name::new("beta");

/// Returns a manifold whose start waits for an output, and which then offers it.
fn waiter(on: Name<u32>) -> Manifold {
    Manifold::builder().inputs(EngineInput).offers::<(u32,)>().run(move |engine: Engine, up| {
        let on = on.clone();
        async move {
            let value = engine.output(on).await?;
            up.ready((value,)).wait().await;
            Ok(())
        }
    })
}

/// Waits until all tasks wait: the paused clock moves only then.
async fn all_wait() {
    tokio::time::sleep(Duration::from_millis(1)).await;
}

async fn why(engine: &Engine, name: &str) -> Result<String, Box<dyn std::error::Error>> {
    Ok(engine.why(name).await.ok_or("there is none")?.to_string())
}

#[tokio::test(start_paused = true)]
async fn what_a_start_awaits_through_the_engine_shows_in_why_and_graph() -> TestResult {
    let engine = test_engine().build()?;
    engine.install(A, waiter(B)).await?;
    let user = Journal::new().manifold(A);
    engine.install(C, user).await?;
    engine.install(B, Journal::new().manifold(ALPHA)).await?;
    all_wait().await;

    let chain = "/c waits for /a, which is starting (0.0 s of at most 300.0 s), and waits for /b, \
                 which waits for /alpha, which is not installed";
    assert_eq!(why(&engine, "c").await?, chain);
    let graph = engine.graph().await.ok_or("no graph")?;
    let awaited: Vec<_> = graph.edges.iter().filter(|edge| edge.need == "awaited").collect();
    assert_eq!((awaited.len(), &*awaited[0].user, &*awaited[0].input), (1, "a", "b"));

    engine.provide(ALPHA, 1).await?;
    engine.running(C).await?;
    let graph = engine.graph().await.ok_or("no graph")?;
    assert!(graph.edges.iter().all(|edge| edge.need != "awaited"), "{graph:?}");
    Ok(clean_kill(engine).await?)
}

#[tokio::test(start_paused = true)]
async fn two_starts_that_wait_for_each_other_are_named_at_once() -> TestResult {
    let engine = test_engine().build()?;
    let mut events = EventRecorder::new(&engine);

    let both = Change::new().install(ALPHA, waiter(BETA)).install(BETA, waiter(ALPHA));
    engine.apply(both).await?;

    let failed = |kind: &EventKind| matches!(kind, EventKind::Ended { error: Some(_), .. });
    let ended = events.wait_for(|event| failed(&event.kind)).await?.to_string();
    let first = r#"ended, failed: "alpha" cannot wait for "beta": it would wait for itself: "#;
    let second = r#"ended, failed: "beta" cannot wait for "alpha": it would wait for itself: "#;
    assert!(ended.contains(first) || ended.contains(second), "{ended}");
    assert!(ended.ends_with("alpha -> beta -> alpha") || ended.ends_with("beta -> alpha -> beta"));
    // A start that waits is not over when the engine is killed.
    Ok(engine.stop().await?)
}

#[tokio::test(start_paused = true)]
async fn a_start_that_waits_for_itself_is_refused() -> TestResult {
    let engine = test_engine().build()?;
    let mut events = EventRecorder::new(&engine);
    let itself = Manifold::builder().inputs(EngineInput).run(|engine: Engine, up| async move {
        engine.running(ALPHA).await?;
        up.ready(()).wait().await;
        Ok(())
    });
    engine.install(ALPHA.output::<()>(), itself).await?;

    let failed = |kind: &EventKind| matches!(kind, EventKind::Ended { error: Some(_), .. });
    let ended = events.wait_for(|event| failed(&event.kind)).await?.to_string();
    assert!(ended.contains(r#""alpha" cannot wait for "alpha""#), "{ended}");
    Ok(clean_kill(engine).await?)
}

/// The circle may go through declared inputs, and may be closed by an install.
#[tokio::test(start_paused = true)]
async fn a_wait_that_an_install_closes_to_a_circle_is_refused() -> TestResult {
    let engine = test_engine().build()?;
    engine.install(A, waiter(B)).await?;
    engine.install(C, Journal::new().manifold(A)).await?;
    all_wait().await;
    let mut events = EventRecorder::new(&engine);

    engine.install(B, Journal::new().manifold(C)).await?;

    let failed = |kind: &EventKind| matches!(kind, EventKind::Ended { error: Some(_), .. });
    let ended = events.wait_for(|event| failed(&event.kind)).await?.to_string();
    assert!(
        ended.ends_with(r#""a" cannot wait for "b": it would wait for itself: a -> b -> c -> a"#),
        "{ended}"
    );
    Ok(clean_kill(engine).await?)
}

/// A worker that is up makes no circle, whatever it waits for.
#[tokio::test(start_paused = true)]
async fn a_running_worker_may_wait_for_what_depends_on_it() -> TestResult {
    let engine = test_engine().build()?;
    let patient = Manifold::builder().inputs(EngineInput).offers::<(u32,)>().run(
        |engine: Engine, up| async move {
            let stop = up.ready((1,));
            let b = engine.output(B).await?;
            assert_eq!(b, 1);
            stop.wait().await;
            Ok(())
        },
    );
    engine.install(A, patient).await?;
    all_wait().await;
    assert_eq!(why(&engine, "a").await?, "/a is running, and waits for /b");

    engine.install(B, Journal::new().manifold(A)).await?;
    engine.settled().await?;
    all_wait().await;

    assert_eq!(why(&engine, "a").await?, "/a is running");
    Ok(clean_kill(engine).await?)
}

#[tokio::test(start_paused = true)]
async fn what_a_start_says_that_it_awaits_shows_as_long_as_it_does() -> TestResult {
    let engine = test_engine().build()?;
    let (gate, opened) = watch::channel(false);
    let web = Manifold::builder().offers::<(u32,)>().run(move |(), up| {
        let mut opened = opened.clone();
        async move {
            let opened = opened.wait_for(|is_open| *is_open);
            up.context().awaiting("the gate \"upgraded\"", opened).await.map(drop)?;
            up.ready((1,)).wait().await;
            Ok(())
        }
    });
    engine.install(A, web).await?;
    engine.install(B, Journal::new().manifold(A)).await?;
    all_wait().await;

    let chain = "/b waits for /a, which is starting (0.0 s of at most 300.0 s), and waits for the \
                 gate \"upgraded\"";
    assert_eq!(why(&engine, "b").await?, chain);
    gate.send_replace(true);
    engine.running(B).await?;
    assert_eq!(why(&engine, "a").await?, "/a is running");
    Ok(clean_kill(engine).await?)
}

/// A circle of waits that leads through two engines is not refused, and a chain to its cause ends.
#[tokio::test(start_paused = true)]
async fn a_chain_through_a_circle_of_engines_ends() -> TestResult {
    const SITE: Name<Engine> = Name::new("site");
    const FACT: Name<u32> = Name::new("fact");
    let engine = test_engine().build()?;
    let page = || Change::new().install(B, Journal::new().manifold(FACT));
    let site = Nested::new(page).engine(|_| test_engine()).import(A, FACT).export(B, C);
    engine.install_nested(SITE, site).await?;
    engine.install(A, waiter(C)).await?;
    all_wait().await;

    let why = why(&engine, "a").await?;
    assert!(why.contains(", and waits for /c, which "), "{why}");
    assert!(why.contains("/site/b"), "{why}");
    let refused = engine.install(A, waiter(C)).await;
    assert!(matches!(refused, Err(ChangeError::AlreadyInstalled { .. })));
    // A start that waits is not over when the engine is killed.
    Ok(engine.stop().await?)
}

/// The end of a start may close a circle, too: then it waits for its input again.
#[tokio::test(start_paused = true)]
async fn a_wait_that_an_end_closes_to_a_circle_is_refused() -> TestResult {
    let (engine, script) = (test_engine().build()?, Script::new());
    script.hold_start();
    engine.install(B, script.manifold(A.optional())).await?;
    script.held().await?;
    engine.install(A, waiter(B)).await?;
    all_wait().await;
    let mut events = EventRecorder::new(&engine);

    engine.bounce(B).await?;

    let failed = |kind: &EventKind| matches!(kind, EventKind::Ended { error: Some(_), .. });
    let ended = events.wait_for(|event| failed(&event.kind)).await?.to_string();
    assert!(ended.ends_with("it would wait for itself: a -> b -> a"), "{ended}");
    Ok(engine.stop().await?)
}
