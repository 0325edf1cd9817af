//! Workers that block the thread that the engine's loop needs, on a clock that runs.

use std::time::Duration;

use crankcase_engine::{Engine, Name};
use crankcase_testing::{Script, clean_kill, test_engine};
use tokio::time::interval;

use crate::log::log;
use crate::threads::WorkerRuntime;
use crate::{A, TestResult};

#[test]
fn a_worker_that_keeps_the_loop_from_its_turn_is_named() -> TestResult {
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
    let log = log();
    runtime.block_on(async {
        let engine = test_engine().name(Name::new("shared")).build()?;
        let script = Script::new();
        engine.install(A, script.manifold(())).await?;
        engine.running(A).await?;
        script.never_yield();
        script.blocked().await?;

        // A kill is for the loop's task, whose only thread is taken.
        engine.kill();
        let line = log.line(&["/shared/a"]).await;

        script.release();
        engine.wait().await?;
        let said = r#"a worker blocks its thread, and the engine's loop waits for its turn engine="/shared" worker=/shared/a"#;
        assert!(line.contains("WARN") && line.contains(said), "{line}");
        Ok(())
    })
}

#[test]
fn a_loop_that_nothing_drives_is_said_to_wait() -> TestResult {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let log = log();
    let engine = runtime.block_on(async { test_engine().name(Name::new("idle")).build() })?;

    engine.kill();
    let others = tokio::runtime::Builder::new_current_thread().build()?;
    let line = others.block_on(log.line(&["/idle"]));

    runtime.block_on(engine.wait())?;
    assert!(line.contains("no worker is seen to block its thread engine=\"/idle\""), "{line}");
    Ok(())
}

#[tokio::test]
async fn a_worker_that_blocks_its_thread_is_told_apart_from_one_that_runs() -> TestResult {
    let workers = WorkerRuntime::new(1)?;
    let engine = test_engine().workers_on(workers.handle()?).build()?;
    let script = Script::new();
    engine.install(A, script.manifold(())).await?;
    engine.running(A).await?;
    let before = engine.report().await;

    script.never_yield();
    script.blocked().await?;
    until_blocking(&engine, true).await;
    let report = engine.report().await;
    let why = engine.why("a").await.ok_or("nothing has the name")?;
    script.release();
    until_blocking(&engine, false).await;

    let seconds = report.workers["a"].blocks_for.ok_or("it does not block")?;
    let since = why.steps[0].blocks_for.ok_or("it does not block any more")?;
    assert!(seconds >= 1.0 && since >= seconds && before.workers["a"].blocks_for.is_none());
    let line = format!("  a  running, blocks its thread for {seconds:.1} s");
    assert!(report.to_string().contains(&line), "{report}");
    let line = format!("/a is running and blocks its thread for {since:.1} s");
    assert!(why.to_string().starts_with(&line), "{why}");
    Ok(clean_kill(engine).await?)
}

/// Waits until a report says whether the worker blocks its thread.
async fn until_blocking(engine: &Engine, is_blocking: bool) {
    let mut looks = interval(Duration::from_millis(20));
    while engine.report().await.workers["a"].blocks_for.is_some() != is_blocking {
        looks.tick().await;
    }
}
