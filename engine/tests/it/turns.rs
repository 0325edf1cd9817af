//! Who takes the turns of an engine's loop, and that they leave nothing behind.

use std::future::{Future, ready};
use std::panic::catch_unwind;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use crankcase_engine::{ChangeError, Engine, EngineError, Events, Manifold, Notice};
use crankcase_testing::{Script, clean_kill, test_engine};
use tokio::runtime::{Builder, Runtime};
use tracing::subscriber::{DefaultGuard, set_default};

use crate::{A, B, SpanStep, Spans, TestResult, stop_all};

/// Polls something once.
fn poll<F: Future>(future: F) -> Poll<F::Output> {
    pin!(future).poll(&mut Context::from_waker(Waker::noop()))
}

fn one_runtime() -> std::io::Result<Runtime> {
    Builder::new_current_thread().enable_all().build()
}

fn one_thread() -> std::io::Result<Runtime> {
    Builder::new_multi_thread().worker_threads(1).enable_all().build()
}

#[test]
fn a_change_is_made_though_the_engines_thread_is_taken_and_a_ping_is_not_answered() -> TestResult {
    let (runtime, script) = (one_thread()?, Script::new());
    runtime.block_on(async {
        let engine = test_engine().build()?;
        engine.install(A, script.manifold(())).await?;
        engine.running(A).await?;
        engine.settled().await?;
        script.never_yield();
        script.blocked().await?;

        let installed = poll(engine.provide(B, 1));
        let asking = engine.clone();
        let mut ping = pin!(asking.ping());
        let pinged = tokio::select! {
            biased;
            answer = &mut ping => Some(answer),
            () = ready(()) => None,
        };

        assert!(matches!(installed, Poll::Ready(Ok(()))), "{installed:?}");
        assert!(pinged.is_none(), "{pinged:?}");
        script.release();
        ping.await?;
        Ok(clean_kill(engine).await?)
    })
}

#[test]
fn a_change_from_a_foreign_thread_is_left_to_the_engines_task() -> TestResult {
    let (runtime, other) = (one_runtime()?, one_runtime()?);
    let engine = runtime.block_on(async { test_engine().build() })?;

    // Nobody drives the engine's runtime.
    let foreign = {
        let _entered = other.enter();
        engine.provide(B, 2)
    };
    let outside = engine.provide(A, 1);
    let (mut outside, mut foreign) = (pin!(outside), pin!(foreign));
    assert!(poll(outside.as_mut()).is_pending());
    assert!(poll(foreign.as_mut()).is_pending());

    runtime.block_on(async {
        outside.await?;
        foreign.await?;
        assert_eq!((engine.output(A).await?, engine.output(B).await?), (1, 2));
        Ok(clean_kill(engine).await?)
    })
}

#[tokio::test(start_paused = true)]
async fn a_ping_of_an_engine_that_has_ended_is_refused() -> TestResult {
    let engine = test_engine().build()?;
    engine.ping().await?;

    stop_all(&engine).await?;

    assert!(engine.ping().await.is_err());
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_deadline_without_end_is_no_obstacle() -> TestResult {
    let engine = test_engine().kill_deadline(Duration::MAX).build()?;
    engine.provide(A, 1).await?;

    Ok(clean_kill(engine).await?)
}

/// An engine whose manifold holds something.
async fn holding(held: &Arc<()>) -> Result<Engine, Box<dyn std::error::Error>> {
    let engine = test_engine().build()?;
    let held = Arc::clone(held);
    let idle = Manifold::builder().offers::<(u32,)>().run(move |(), up| {
        let _held = Arc::clone(&held);
        async move {
            up.ready((1,)).wait().await;
            Ok(())
        }
    });
    engine.install(A, idle).await?;
    engine.running(A).await?;
    Ok(engine)
}

#[test]
fn nothing_is_left_of_an_engine_whose_runtime_went() -> TestResult {
    let (runtime, held) = (one_runtime()?, Arc::new(()));
    let engine = runtime.block_on(holding(&held))?;
    assert!(Arc::strong_count(&held) > 1);

    drop(runtime);

    drop(engine);
    assert_eq!(Arc::strong_count(&held), 1);
    Ok(())
}

#[test]
fn nothing_is_left_of_an_engine_that_has_ended() -> TestResult {
    let (runtime, held) = (one_runtime()?, Arc::new(()));
    let engine = runtime.block_on(holding(&held))?;

    runtime.block_on(engine.stop())?;
    drop(engine);
    drop(runtime);

    assert_eq!(Arc::strong_count(&held), 1);
    Ok(())
}

#[test]
fn an_engine_on_a_runtime_that_is_gone_is_refused_at_once() -> TestResult {
    let runtime = one_thread()?;
    let handle = runtime.handle().clone();
    drop(runtime);
    let engine = {
        let _entered = handle.enter();
        test_engine().build()?
    };

    let change = poll(engine.provide(A, 1));

    assert!(matches!(change, Poll::Ready(Err(_))), "{change:?}");
    Ok(())
}

/// Makes the start of a worker panic in the engine's loop, for as long as the guard lives.
fn fault() -> DefaultGuard {
    set_default(Spans(|step| assert!(step != SpanStep::Made, "a log that panics")))
}

#[tokio::test(start_paused = true)]
async fn a_panic_in_a_callers_turn_ends_the_engine_and_not_the_caller() -> TestResult {
    let (engine, _fault) = (test_engine().build()?, fault());

    let provided = engine.provide(A, 1).await;

    assert!(matches!(provided, Err(ChangeError::Stopped)), "{provided:?}");
    let ended = engine.wait().await;
    assert!(matches!(ended, Err(EngineError::Panicked { .. })), "{ended:?}");
    assert_eq!(engine.report().await.error.as_deref(), Some("its loop panicked"));
    Ok(())
}

/// Returns the events that there are, as text, and whether none will follow.
fn all(events: &mut Events) -> (Vec<String>, bool) {
    let mut lines = Vec::new();
    while let Some(notice) = events.try_next() {
        lines.push(match notice {
            Notice::Event(event) => format!("{} {}", event.path(), event.kind),
            Notice::Missed(missed) => format!("{missed} missed"),
        });
    }
    (lines, matches!(poll(events.next()), Poll::Ready(None)))
}

#[tokio::test(start_paused = true)]
async fn a_loop_that_panics_loses_no_event_and_ends_them() -> TestResult {
    let (engine, _fault) = (test_engine().build()?, fault());
    let mut events = engine.events();

    let provided = engine.provide(A, 1).await;

    assert!(provided.is_err(), "{provided:?}");
    let expected = ["/a installed", "/a starting, generation 1"].map(str::to_owned).to_vec();
    assert_eq!(all(&mut events), (expected, true));
    Ok(())
}

#[test]
fn the_events_of_an_engine_whose_runtime_went_come_to_their_end() -> TestResult {
    let runtime = one_runtime()?;
    let engine = runtime.block_on(async { test_engine().build() })?;
    let mut events = engine.events();

    drop(runtime);

    assert_eq!(all(&mut events), (Vec::new(), true));
    let other = one_runtime()?;
    let report = other.block_on(engine.report());
    assert_eq!(report.error.as_deref(), Some("its runtime was shut down"));
    Ok(())
}

#[test]
fn no_engine_is_built_where_there_are_no_timers() -> TestResult {
    let runtime = Builder::new_current_thread().build()?;

    let built = catch_unwind(|| runtime.block_on(async { test_engine().build() }));

    assert!(built.is_err());
    Ok(())
}
