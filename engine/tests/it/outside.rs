//! Values that are read and handed in from outside of an engine's workers.

use crankcase_engine::{ChangeError, EngineGone, Name};
use crankcase_testing::{Journal, Script, clean_kill, test_engine};

use crate::{A, B, C, TestResult, add_one};

#[tokio::test(start_paused = true)]
async fn a_value_that_is_handed_in_again_bounces_its_users() -> TestResult {
    let (engine, journal) = (test_engine().build()?, Journal::new());
    engine.provide(A, 1).await?;
    engine.install(B, journal.manifold(A)).await?;
    engine.running(B).await?;

    engine.provide(A, 2).await?;
    engine.settled().await?;

    assert_eq!(journal.lines(), ["start b 1", "stop b", "end b", "start b 2"]);
    Ok(clean_kill(engine).await?)
}

#[tokio::test(start_paused = true)]
async fn a_value_that_is_handed_in_takes_no_manifolds_place() -> TestResult {
    let (engine, journal) = (test_engine().build()?, Journal::new());
    engine.install(A, journal.manifold(())).await?;
    engine.running(A).await?;

    let refused = engine.provide(A, 7).await;

    let text = refused.err().ok_or("it was taken")?.to_string();
    assert_eq!(text, "cannot provide \"a\": a manifold is installed there");
    assert_eq!(engine.output(A).await?, 1);
    assert_eq!(journal.lines(), ["start a"]);
    Ok(clean_kill(engine).await?)
}

#[tokio::test(start_paused = true)]
async fn a_value_can_be_handed_in_where_a_manifold_was() -> TestResult {
    let engine = test_engine().build()?;
    engine.install(A, Script::new().manifold(())).await?;
    // The name stays, because it is used.
    engine.install(B, add_one(A)).await?;
    engine.uninstall(A).await?;

    engine.provide(A, 7).await?;

    assert_eq!(engine.output(B).await?, 8);
    Ok(clean_kill(engine).await?)
}

#[tokio::test(start_paused = true)]
async fn output_waits_for_a_worker_that_is_not_installed_yet() -> TestResult {
    let engine = test_engine().build()?;

    let (value, installed) = tokio::join!(engine.output(B), async {
        engine.install(B, add_one(A)).await?;
        engine.provide(A, 1).await
    });

    installed?;
    assert_eq!(value?, 2);
    Ok(clean_kill(engine).await?)
}

#[tokio::test(start_paused = true)]
async fn a_followed_output_is_none_while_no_worker_offers_it() -> TestResult {
    let engine = test_engine().build()?;
    engine.provide(A, 1).await?;
    let mut watch = engine.output(A).follow().await?;
    assert_eq!(watch.value().await, Ok(1));

    engine.uninstall(A).await?;

    assert_eq!(watch.get(), None);
    Ok(clean_kill(engine).await?)
}

#[tokio::test(start_paused = true)]
async fn who_follows_a_value_can_tell_that_it_is_absent_from_that_the_engine_is_gone() -> TestResult
{
    let engine = test_engine().build()?;
    engine.provide(A, 1).await?;
    let mut watch = engine.output(A).follow().await?;
    assert_eq!(watch.value().await, Ok(1));

    engine.uninstall(A).await?;
    assert_eq!(watch.changed().await, Ok(None));
    clean_kill(engine).await?;

    assert_eq!(watch.changed().await, Err(EngineGone));
    assert_eq!(watch.value().await, Err(EngineGone));
    assert_eq!(watch.get(), None);
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_name_that_is_no_longer_followed_is_forgotten() -> TestResult {
    let engine = test_engine().build()?;
    let watch = engine.output(A).follow().await?;
    assert_eq!(engine.graph().await.ok_or("it ended")?.nodes.len(), 1);

    drop(watch);
    engine.settled().await?;

    assert!(engine.graph().await.ok_or("it ended")?.nodes.is_empty());
    Ok(clean_kill(engine).await?)
}

#[tokio::test(start_paused = true)]
async fn a_name_is_kept_while_a_clone_follows_it() -> TestResult {
    let engine = test_engine().build()?;
    let first = engine.output(A).follow().await?;
    let second = first.clone();

    drop(first);
    engine.settled().await?;
    assert_eq!(engine.graph().await.ok_or("it ended")?.nodes.len(), 1);
    drop(second);
    engine.settled().await?;

    assert!(engine.graph().await.ok_or("it ended")?.nodes.is_empty());
    Ok(clean_kill(engine).await?)
}

#[tokio::test(start_paused = true)]
async fn a_question_that_is_given_up_leaves_no_name_behind() -> TestResult {
    let (engine, b) = (test_engine().build()?, B);

    for _ in 0..3 {
        tokio::select! {
            biased;
            _ = engine.output(A) => {}
            _ = engine.running(b.clone()) => {}
            () = std::future::ready(()) => {}
        }
    }
    engine.settled().await?;

    assert!(engine.graph().await.ok_or("it ended")?.nodes.is_empty());
    Ok(clean_kill(engine).await?)
}

#[tokio::test(start_paused = true)]
async fn running_waits_for_its_own_name_and_no_other() -> TestResult {
    let engine = test_engine().build()?;
    let (name, other) = (C, Name::<u32>::new("other"));

    let waits = engine.running(name.clone());
    let installed = async {
        engine.settled().await?;
        engine.provide(other, 1).await?;
        engine.settled().await
    };
    let is_first = tokio::select! {
        biased;
        _ = waits => true,
        installed = installed => { installed?; false }
    };

    assert!(!is_first);
    Ok(clean_kill(engine).await?)
}

#[tokio::test(start_paused = true)]
async fn an_output_of_an_engine_that_ends_is_an_error() -> TestResult {
    let engine = test_engine().build()?;

    let (output, ended) = tokio::join!(engine.output(A), engine.stop());

    ended?;
    assert_eq!(output, Err(ChangeError::Stopped));
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_value_that_is_not_on_offer_is_refused_to_those_outside() -> TestResult {
    let engine = test_engine().build()?;
    engine.install(A, Script::new().manifold(())).await?;

    let refused = engine.output(A.output::<String>()).await;

    let text = refused.err().ok_or("it was offered")?.to_string();
    assert_eq!(text, "cannot follow \"a\" as String: it offers u32");
    Ok(clean_kill(engine).await?)
}
