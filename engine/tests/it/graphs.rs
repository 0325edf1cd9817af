//! Graphs of what uses what.

use std::sync::Arc;

use crankcase_engine::{Change, Engine, Name, NameError, WorkerState};
use crankcase_testing::{Journal, Script, clean_kill, test_engine};

use crate::{A, B, C, TestResult, state};

async fn small_engine() -> Result<Engine, Box<dyn std::error::Error>> {
    let engine = test_engine().build()?;
    engine.provide(A, 1).await?;
    engine.install(B, Script::new().manifold((A, C.optional()))).await?;
    engine.install(Name::<u32>::new("d"), Script::new().manifold(B.live())).await?;
    engine.settled().await?;
    Ok(engine)
}

#[tokio::test(start_paused = true)]
async fn a_graph_is_written_as_dot() -> TestResult {
    let engine = small_engine().await?;

    let dot = engine.graph().await.ok_or("it has ended")?.to_dot();

    assert_eq!(dot, include_str!("golden/graph.dot"));
    Ok(clean_kill(engine).await?)
}

#[tokio::test(start_paused = true)]
async fn a_graph_is_written_as_json() -> TestResult {
    let engine = small_engine().await?;

    let graph = engine.graph().await.ok_or("it has ended")?;
    let json = serde_json::to_string_pretty(&graph)?;

    assert_eq!(json + "\n", include_str!("golden/graph.json"));
    Ok(clean_kill(engine).await?)
}

#[tokio::test(start_paused = true)]
async fn a_part_of_a_graph_is_what_is_near() -> TestResult {
    let engine = small_engine().await?;

    let near = engine.graph().await.ok_or("it has ended")?.near("a", (1, 20));

    let names: Vec<_> = near.nodes.iter().map(|node| node.name.as_str()).collect();
    assert_eq!(names, ["a", "b"]);
    Ok(clean_kill(engine).await?)
}

#[tokio::test(start_paused = true)]
async fn a_bounce_shows_in_state_and_generation() -> TestResult {
    let engine = test_engine().build()?;
    engine.install(A, Script::new().manifold(())).await?;
    engine.running(A).await?;

    engine.bounce(A).await?;
    engine.running(A).await?;

    assert_eq!(state(&engine, "a").await, WorkerState::Running);
    assert_eq!(engine.report().await.workers["a"].generation, 2);
    Ok(clean_kill(engine).await?)
}

#[tokio::test(start_paused = true)]
async fn reports_and_graphs_of_many_are_complete_while_others_come_and_go() -> TestResult {
    let engine = test_engine().build()?;
    let name = |index: usize| Name::<u32>::parse(&format!("many-{index}"));
    let mut many = Change::new();
    for index in 0..2_000 {
        many = many.install(name(index)?, Script::new().manifold(()));
    }
    engine.apply(many).await?;
    engine.settled().await?;

    let going = engine.apply((0..500).try_fold(Change::new(), |change, index| {
        Ok::<_, NameError>(change.uninstall(name(index)?))
    })?);
    let coming = engine.install(A, Script::new().manifold(()));
    let (report, graph) = tokio::join!(engine.report(), engine.graph());

    let graph = graph.ok_or("no graph")?;
    for index in 500..2_000 {
        let name = format!("many-{index}");
        assert_eq!(report.workers[&name].state, WorkerState::Running);
        assert!(graph.nodes.iter().any(|node| node.name == name), "{name}");
    }
    assert!(graph.nodes.is_sorted());
    going.await?;
    coming.await?;
    Ok(clean_kill(engine).await?)
}

#[tokio::test(start_paused = true)]
async fn json_has_short_names_of_types_and_empty_lists() -> TestResult {
    const LIST: Name<Arc<Vec<String>>> = Name::new("list");
    let (engine, journal) = (test_engine().build()?, Journal::new());
    engine.provide(LIST, Arc::default()).await?;
    engine.install(A, journal.manifold(LIST)).await?;
    engine.settled().await?;

    let graph = serde_json::to_value(engine.graph().await.ok_or("it has ended")?)?;
    let report = serde_json::to_value(engine.report().await)?;
    clean_kill(engine).await?;

    assert_eq!(graph["edges"][0]["output"], "Vec<String>");
    assert_eq!(report["workers"]["a"]["inputs"][0]["output"], "Vec<String>");
    assert_eq!(report["workers"]["list"]["inputs"], serde_json::json!([]));
    assert_eq!(report["left_behind"], serde_json::json!([]));
    assert_eq!(format!("{LIST:?}"), r#"Name("list": Vec<String>)"#);
    Ok(())
}
