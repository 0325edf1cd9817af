//! Outputs: several of them, and changing ones.

use std::sync::Arc;
use std::time::Duration;

use crankcase_engine::{
    Changing, Engine, EventKind, Exit, Live, Manifold, Outcome, Stop, Worker, WorkerState,
};
use crankcase_testing::{EventRecorder, Journal, Script, clean_kill, test_engine, wait_for_state};
use tokio::sync::{Notify, watch};

use crate::{A, B, TestResult};

#[derive(Debug, Clone, PartialEq)]
struct Stats(u64);

struct Poller {
    load: watch::Receiver<u32>,
}

impl Worker for Poller {
    async fn run(self, stop: Stop) -> Outcome {
        stop.wait().await;
        Ok(())
    }
}

/// Returns a manifold with a fixed output and a changing one.
fn poller(load: &watch::Sender<u32>) -> Manifold {
    let load = load.subscribe();
    Manifold::builder()
        .start_with(load, |load, (), _ctx| async move { Ok(Poller { load }) })
        .output(|_| Stats(3))
        .changing(|poller| poller.load.clone())
        .build()
}

#[tokio::test(start_paused = true)]
async fn a_second_output_is_asked_for_by_its_type() -> TestResult {
    let engine = test_engine().build()?;
    let load = watch::Sender::new(1);

    engine.install(A, poller(&load)).await?;

    assert_eq!(engine.output(A).await?, 1);
    assert_eq!(engine.output(A.output::<Stats>()).await?, Stats(3));
    Ok(clean_kill(engine).await?)
}

#[tokio::test(start_paused = true)]
async fn an_engine_has_settled_only_after_a_value_that_was_sent_before() -> TestResult {
    let (engine, journal) = (test_engine().build()?, Journal::new());
    let load = watch::Sender::new(1);
    engine.install(A, poller(&load)).await?;
    engine.install(B, journal.manifold(A)).await?;
    engine.settled().await?;

    load.send(2)?;
    engine.settled().await?;

    assert_eq!(journal.starts("b"), 2);
    Ok(clean_kill(engine).await?)
}

#[tokio::test(start_paused = true)]
async fn every_manifold_offers_that_it_runs() -> TestResult {
    let (engine, journal) = (test_engine().build()?, Journal::new());
    engine.install(A, Script::new().manifold(())).await?;

    engine.install(B, journal.manifold(A.output::<()>())).await?;

    engine.running(B).await?;
    Ok(clean_kill(engine).await?)
}

#[tokio::test(start_paused = true)]
async fn a_changed_output_bounces_who_requires_it() -> TestResult {
    let load = watch::Sender::new(1);
    check_it_changes(poller(&load), &load).await
}

#[tokio::test(start_paused = true)]
async fn a_changed_output_concerns_only_who_uses_its_type() -> TestResult {
    let (engine, journal) = (test_engine().build()?, Journal::new());
    let mut events = EventRecorder::new(&engine);
    let load = watch::Sender::new(1);
    engine.install(A, poller(&load)).await?;
    engine.install(B, journal.manifold(A.output::<Stats>())).await?;
    engine.running(B).await?;

    load.send(2)?;
    events.wait_for_kind("/a", |kind| *kind == EventKind::Changed { output: "u32" }).await?;
    engine.settled().await?;

    assert_eq!(journal.lines(), ["start b Stats(3)"]);
    Ok(clean_kill(engine).await?)
}

#[tokio::test(start_paused = true)]
async fn a_changed_output_is_news_only_to_those_who_follow_its_type() -> TestResult {
    let engine = test_engine().build()?;
    let load = watch::Sender::new(1);
    engine.install(A, poller(&load)).await?;
    let mut stats = engine.output(A.output::<Stats>()).follow().await?;
    let mut loads = engine.output(A).follow().await?;
    assert_eq!((stats.value().await?, loads.value().await?), (Stats(3), 1));

    load.send(2)?;

    assert_eq!(loads.changed().await?, Some(2));
    engine.settled().await?;
    tokio::select! {
        biased;
        news = stats.changed() => return Err(format!("{news:?} is no news").into()),
        () = std::future::ready(()) => {}
    }
    Ok(clean_kill(engine).await?)
}

/// Returns an engine with a poller that closes for 20 s once it is to stop, and what follows its load.
async fn slowly_used(
    load: &watch::Sender<u32>,
) -> Result<(Engine, Live<u32>), Box<dyn std::error::Error>> {
    let (engine, slow) = (test_engine().build()?, Script::new());
    slow.stop_after(Duration::from_secs(20));
    engine.install(A, poller(load)).await?;
    engine.install(B, slow.manifold(A)).await?;
    engine.running(B).await?;
    let loads = engine.output(A).follow().await?;
    Ok((engine, loads))
}

#[tokio::test(start_paused = true)]
async fn who_follows_a_worker_that_closes_sees_its_last_value() -> TestResult {
    let load = watch::Sender::new(1);
    let (engine, mut loads) = slowly_used(&load).await?;
    assert_eq!(loads.value().await?, 1);

    let (bounced, seen) = tokio::join!(engine.bounce(A), async {
        wait_for_state(&engine, "a", WorkerState::Closing)
            .await
            .map_err(|_| "it does not close")?;
        load.send(2).map_err(|_| "it is gone")?;
        loads.changed().await.map_err(|_| "the engine is gone")
    });

    bounced?;
    assert_eq!(seen, Ok(Some(2)));
    Ok(clean_kill(engine).await?)
}

#[tokio::test(start_paused = true)]
async fn a_value_of_a_worker_that_closes_for_good_reaches_nobody() -> TestResult {
    let load = watch::Sender::new(1);
    let (engine, loads) = slowly_used(&load).await?;

    let (uninstalled, sent) = tokio::join!(engine.uninstall(A), async {
        wait_for_state(&engine, "a", WorkerState::Closing)
            .await
            .map_err(|_| "it does not close")?;
        load.send(2).map_err(|_| "it is gone")?;
        tokio::time::sleep(Duration::from_secs(1)).await;
        Ok::<_, &str>(loads.get())
    });

    uninstalled?;
    assert_eq!(sent, Ok(Some(1)));
    Ok(clean_kill(engine).await?)
}

#[tokio::test(start_paused = true)]
async fn a_worker_that_is_ready_after_it_was_told_to_stop_offers_nothing() -> TestResult {
    let (engine, began) = (test_engine().build()?, Arc::new(Notify::new()));
    let begins = Arc::clone(&began);
    let late =
        Manifold::builder().offers::<(u32,)>().run_with(begins, |begins, (), up| async move {
            begins.notify_one();
            up.context().stop().wait().await;
            let _told = up.ready((80,));
            tokio::time::sleep(Duration::from_secs(20)).await;
            Ok(())
        });
    let mut events = EventRecorder::new(&engine);
    engine.install(A, late).await?;
    began.notified().await;

    let (parked, seen) = tokio::join!(engine.park(A), async {
        let is_up = |kind: &EventKind| matches!(kind, EventKind::Started { .. });
        events.wait_for_kind("/a", is_up).await?;
        Ok::<_, Box<dyn std::error::Error>>(engine.output(A).follow().await?.get())
    });

    parked?;
    assert_eq!(seen?, None);
    Ok(clean_kill(engine).await?)
}

#[tokio::test(start_paused = true)]
async fn an_equal_value_is_no_change() -> TestResult {
    let engine = test_engine().build()?;
    let mut events = EventRecorder::new(&engine);
    let load = watch::Sender::new(1);
    engine.install(A, poller(&load)).await?;
    engine.running(A).await?;

    load.send(1)?;
    tokio::time::sleep(Duration::from_secs(1)).await;
    clean_kill(engine).await?;

    events.finish().await?;
    assert!(!events.seen().iter().any(|event| matches!(event.kind, EventKind::Changed { .. })));
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_value_whose_sender_is_dropped_at_once_is_not_lost() -> TestResult {
    let (engine, journal) = (test_engine().build()?, Journal::new());
    let load = watch::Sender::new(1);
    engine.install(A, poller(&load)).await?;
    engine.install(B, journal.manifold(A)).await?;
    engine.running(B).await?;
    let loads = engine.output(A).follow().await?;

    load.send(2)?;
    drop(load);
    tokio::task::yield_now().await;
    engine.settled().await?;

    assert_eq!(loads.get(), Some(2));
    assert_eq!(journal.lines(), ["start b 1", "stop b", "end b", "start b 2"]);
    Ok(clean_kill(engine).await?)
}

#[tokio::test(start_paused = true)]
async fn a_burst_of_values_is_one_bounce() -> TestResult {
    let (engine, journal) = (test_engine().build()?, Journal::new());
    let load = watch::Sender::new(1);
    engine.install(A, poller(&load)).await?;
    engine.install(B, journal.manifold(A)).await?;
    engine.running(B).await?;

    for value in 2..9 {
        load.send(value)?;
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    engine.settled().await?;

    assert_eq!(journal.lines(), ["start b 1", "stop b", "end b", "start b 8"]);
    Ok(clean_kill(engine).await?)
}

#[tokio::test(start_paused = true)]
async fn a_starting_user_finishes_and_is_bounced_once() -> TestResult {
    let (engine, journal) = (test_engine().build()?, Journal::new());
    let user = Script::new().recorded_in(&journal);
    let mut events = EventRecorder::new(&engine);
    let load = watch::Sender::new(1);
    user.hold_start();
    engine.install(A, poller(&load)).await?;
    engine.install(B, user.manifold(A)).await?;
    user.held().await?;

    for value in [2, 3] {
        load.send(value)?;
        events.wait_for_kind("/a", |kind| matches!(kind, EventKind::Changed { .. })).await?;
    }
    user.release();
    events.wait_for_kind("/b", |kind| *kind == EventKind::Started { generation: 2 }).await?;
    engine.settled().await?;

    assert_eq!(journal.lines(), ["start b 1", "stop b", "end b", "start b 3"]);
    Ok(clean_kill(engine).await?)
}

#[tokio::test(start_paused = true)]
async fn a_value_that_comes_while_a_start_misses_it_starts_the_worker_again() -> TestResult {
    let engine = test_engine().build()?;
    let mut events = EventRecorder::new(&engine);
    let (load, looked) = (watch::Sender::new(1), Arc::new(Notify::new()));
    let impatient = Manifold::builder().inputs(A).offers::<(u32,)>().run_with(
        Arc::clone(&looked),
        |looked, load: u32, up| async move {
            if load < 2 {
                looked.notified().await;
                return Err(Exit::missing("there is no load"));
            }
            up.ready((load,)).wait().await;
            Ok(())
        },
    );
    engine.install(A, poller(&load)).await?;
    engine.install(B, impatient).await?;
    events.wait_for_kind("/b", |kind| matches!(kind, EventKind::Starting { .. })).await?;

    load.send(2)?;
    events.wait_for_kind("/a", |kind| matches!(kind, EventKind::Changed { .. })).await?;
    looked.notify_one();
    engine.settled().await?;

    assert_eq!(engine.report().await.workers["b"].state.to_string(), "running");
    Ok(clean_kill(engine).await?)
}

/// Checks that a new value of a changing output bounces who requires it.
async fn check_it_changes(offering: Manifold, load: &watch::Sender<u32>) -> TestResult {
    let (engine, journal) = (test_engine().build()?, Journal::new());
    engine.install(A, offering).await?;
    engine.install(B, journal.manifold(A)).await?;
    engine.running(B).await?;

    load.send(2)?;
    tokio::task::yield_now().await;
    engine.settled().await?;

    assert_eq!(journal.lines(), ["start b 1", "stop b", "end b", "start b 2"]);
    Ok(clean_kill(engine).await?)
}

#[tokio::test(start_paused = true)]
async fn a_closure_can_offer_a_changing_value() -> TestResult {
    let load = watch::Sender::new(1);
    let closure = Manifold::builder().offers::<(Changing<u32>,)>().run_with(
        load.subscribe(),
        |load, (), up| async move {
            up.ready((Changing::new(load),)).wait().await;
            Ok(())
        },
    );
    check_it_changes(closure, &load).await
}

#[tokio::test(start_paused = true)]
async fn a_closure_that_is_ready_in_another_task_can_offer_a_changing_value() -> TestResult {
    let load = watch::Sender::new(1);
    let closure = Manifold::builder().offers::<(Changing<u32>,)>().run_with(
        load.subscribe(),
        |load, (), up| async move {
            let stop = up.context().stop().clone();
            let mut tasks = tokio::task::JoinSet::new();
            tasks.spawn(async move { up.ready((Changing::new(load),)) });
            // Nothing but its stop wakes the worker's own task.
            stop.wait().await;
            Ok(())
        },
    );
    check_it_changes(closure, &load).await
}
