//! Control calls: groups, and when each call is answered.

use std::error::Error;
use std::time::Duration;

use crankcase_engine::{Change, Engine, Graph, Manifold, Outcome, Stop, Worker, WorkerState};
use crankcase_testing::{Journal, Script, clean_kill, test_engine, wait_for_state};

use crate::{A, B, C, TestResult, add_one, state};

pub(crate) async fn graph(engine: &Engine) -> Result<Graph, Box<dyn Error>> {
    engine.settled().await?;
    Ok(engine.graph().await.ok_or("the engine has ended")?)
}

pub(crate) fn idle() -> Manifold {
    Script::new().manifold(())
}

/// Returns a manifold that offers a text.
pub(crate) fn text() -> Manifold {
    Manifold::builder().offers::<(String,)>().run(|(), up| async move {
        up.ready(("text".to_owned(),)).wait().await;
        Ok(())
    })
}

#[tokio::test(start_paused = true)]
async fn a_group_is_one_wave() -> TestResult {
    let (engine, journal) = (test_engine().build()?, Journal::new());
    let group = Change::new().install(A, idle()).install(B, idle());
    engine.apply(group.install(C, journal.manifold((A, B)))).await?;
    engine.running(C).await?;

    engine.apply(Change::new().replace(A, idle()).bounce(B)).await?;
    engine.settled().await?;

    assert_eq!(journal.starts("c"), 2);
    Ok(clean_kill(engine).await?)
}

struct Plain;

impl Worker for Plain {
    async fn run(self, stop: Stop) -> Outcome {
        stop.wait().await;
        Ok(())
    }
}

#[tokio::test(start_paused = true)]
async fn a_builder_is_a_manifold_also_without_build() -> TestResult {
    let engine = test_engine().build()?;
    let plain = |value: u32| {
        Manifold::builder().start(|(), _ctx| async { Ok(Plain) }).output(move |_| value)
    };

    engine.install(A, plain(1)).await?;
    engine.replace(A, plain(2)).await?;
    engine.install_or_replace(B, plain(3)).await?;
    let group = Change::new().install(C, plain(4)).replace(A, plain(5));
    engine.apply(group.install_or_replace(B, plain(6))).await?;

    let values = (engine.output(A).await?, engine.output(B).await?, engine.output(C).await?);
    assert_eq!(values, (5, 6, 4));
    Ok(clean_kill(engine).await?)
}

#[tokio::test(start_paused = true)]
async fn uninstall_with_dependents_takes_all_of_them_out() -> TestResult {
    let engine = test_engine().build()?;
    engine.apply(Change::new().install(A, idle()).install(B, add_one(A))).await?;
    engine.install(C, Script::new().manifold(B.optional())).await?;
    engine.settled().await?;

    engine.uninstall_with_dependents(A).await?;

    assert!(graph(&engine).await?.nodes.is_empty());
    Ok(clean_kill(engine).await?)
}

#[tokio::test(start_paused = true)]
async fn install_or_replace_puts_a_manifold_there_in_any_case() -> TestResult {
    let (engine, journal) = (test_engine().build()?, Journal::new());

    engine.install_or_replace(A, idle()).await?;
    engine.install_or_replace(A, journal.manifold(())).await?;
    engine.running(A).await?;

    assert_eq!(journal.starts("a"), 1);
    Ok(clean_kill(engine).await?)
}

pub(crate) async fn chain() -> Result<Engine, Box<dyn Error>> {
    let engine = test_engine().build()?;
    engine.apply(Change::new().install(A, idle()).install(B, add_one(A))).await?;
    engine.install(C, add_one(B)).await?;
    engine.running(C).await?;
    Ok(engine)
}

#[tokio::test(start_paused = true)]
async fn uninstall_with_dependents_takes_those_out_that_the_group_would_only_stop() -> TestResult {
    let engine = test_engine().build()?;
    engine.provide(A, 1).await?;
    engine.install(B, add_one(A)).await?;
    engine.install(C, add_one(B)).await?;
    engine.running(C).await?;

    engine.apply(Change::new().bounce(B).uninstall_with_dependents(A)).await?;

    assert!(engine.report().await.workers.is_empty());
    Ok(clean_kill(engine).await?)
}

#[tokio::test(start_paused = true)]
async fn a_parked_worker_stays_stopped_until_it_is_unparked() -> TestResult {
    let engine = chain().await?;
    engine.park(A).await?;
    engine.settled().await?;
    assert_eq!(state(&engine, "a").await, WorkerState::Parked);
    engine.bounce(A).await?;
    assert_eq!(state(&engine, "a").await, WorkerState::Parked);

    engine.unpark(A).await?;

    engine.running(C).await?;
    Ok(clean_kill(engine).await?)
}

#[tokio::test(start_paused = true)]
async fn an_output_type_is_changed_together_with_its_users() -> TestResult {
    let (engine, journal) = (test_engine().build()?, Journal::new());
    engine.provide(A, 1).await?;
    engine.install(B, journal.manifold(A)).await?;
    engine.running(B).await?;

    let texts = A.output::<String>();
    let change = Change::new().replace(texts.clone(), text());
    engine.apply(change.replace(B, journal.manifold(texts))).await?;
    engine.settled().await?;

    assert_eq!(journal.lines().last().map(String::as_str), Some("start b \"text\""));
    Ok(clean_kill(engine).await?)
}

#[tokio::test(start_paused = true)]
async fn a_replaced_worker_does_not_offer_its_successors_types() -> TestResult {
    let (engine, slow) = (test_engine().build()?, Script::new());
    slow.stop_after(Duration::from_secs(5));
    engine.provide(A, 1).await?;
    engine.install(B, slow.manifold(A.output::<()>())).await?;
    engine.running(B).await?;

    let texts = A.output::<String>();
    let replaced = engine.replace(texts.clone(), text());
    let looked = async {
        wait_for_state(&engine, "b", WorkerState::Stopping).await?;
        Ok::<_, Box<dyn Error>>(engine.output(texts.clone()).follow().await?.get())
    };
    let (replaced, looked) = tokio::join!(replaced, looked);

    replaced?;
    assert_eq!(looked?, None);
    Ok(clean_kill(engine).await?)
}

#[tokio::test(start_paused = true)]
async fn a_bounce_is_answered_when_the_old_worker_is_gone() -> TestResult {
    let (engine, journal) = (test_engine().build()?, Journal::new());
    let slow = Script::new().recorded_in(&journal);
    slow.stop_after(Duration::from_secs(5));
    engine.install(A, slow.manifold(())).await?;
    engine.running(A).await?;

    engine.bounce(A).await?;

    assert_eq!(journal.lines(), ["start a", "stop a", "end a"]);
    Ok(clean_kill(engine).await?)
}

#[tokio::test(start_paused = true)]
async fn an_install_is_answered_before_the_worker_is_up() -> TestResult {
    let (engine, script) = (test_engine().build()?, Script::new());
    script.hold_start();

    engine.install(A, script.manifold(())).await?;

    assert_eq!(state(&engine, "a").await, WorkerState::Starting);
    Ok(clean_kill(engine).await?)
}

#[tokio::test(start_paused = true)]
async fn an_install_on_a_name_whose_worker_still_stops_starts_when_it_has() -> TestResult {
    let (engine, journal) = (test_engine().build()?, Journal::new());
    let slow = Script::new().recorded_in(&journal);
    slow.stop_after(Duration::from_secs(5));
    engine.install(A, slow.manifold(())).await?;
    engine.running(A).await?;

    let a = A;
    let (uninstalled, installed) =
        tokio::join!(engine.uninstall(a.clone()), engine.install(A, journal.manifold(())));
    engine.running(A).await?;

    uninstalled?;
    installed?;
    assert_eq!(journal.lines(), ["start a", "stop a", "end a", "start a"]);
    Ok(clean_kill(engine).await?)
}

#[tokio::test(start_paused = true)]
async fn a_call_whose_caller_gives_up_happens_all_the_same() -> TestResult {
    let engine = test_engine().build()?;

    tokio::select! {
        biased;
        _ = engine.install(A, idle()) => {}
        () = std::future::ready(()) => {}
    }

    engine.running(A).await?;
    Ok(clean_kill(engine).await?)
}
