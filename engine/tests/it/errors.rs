//! How errors are told: with their causes, and written once.

use std::error::Error;
use std::fmt;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context as TaskContext, Poll};
use std::time::Duration;

use crankcase_engine::owner::NestedEngine;
use crankcase_engine::{
    Context, Engine, EngineBuilder, EngineError, EventKind, Exit, Manifold, Name, Outcome,
};
use crankcase_testing::{EventRecorder, Script, clean_kill, test_engine};

use crate::{A, B, TestResult};

/// An error with a cause. It can be written once: the second time it panics.
#[derive(Debug, Default)]
struct Once {
    was_written: AtomicBool,
    cause: NoSpace,
}

impl fmt::Display for Once {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        assert!(!self.was_written.swap(true, Ordering::Relaxed), "written a second time");
        f.write_str("cannot mount the disk")
    }
}

impl Error for Once {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        Some(&self.cause)
    }
}

#[derive(Debug, Default)]
struct NoSpace;

impl fmt::Display for NoSpace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("no space is left")
    }
}

impl Error for NoSpace {}

/// Returns an engine that had a fatal error, and that a slow worker keeps from ending.
async fn failing() -> Result<Engine, Box<dyn Error>> {
    let (engine, fails, slow) = (test_engine().build()?, Script::new(), Script::new());
    slow.stop_after(Duration::from_secs(10));
    engine.install(A, fails.manifold(())).await?;
    engine.install(B, slow.manifold(())).await?;
    engine.running(A).await?;
    engine.running(B).await?;
    fails.end(Err(Exit::fatal(Once::default())));
    engine.stopping().await;
    Ok(engine)
}

const FATAL: &str = "/a: cannot mount the disk: no space is left";

#[tokio::test(start_paused = true)]
async fn a_report_tells_a_fatal_error_with_its_causes_and_writes_it_no_second_time() -> TestResult {
    let engine = failing().await?;

    let stopping = engine.report().await;
    let ended = engine.wait().await;
    let stopped = engine.report().await;

    assert_eq!(stopping.error.as_deref(), Some(FATAL));
    assert!(matches!(ended, Err(EngineError::Fatal { .. })));
    assert_eq!(stopped.error.as_deref(), Some(FATAL));
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn the_error_of_a_nested_engine_is_written_no_second_time_outside() -> TestResult {
    const SITE: Name<()> = Name::new("site");
    let (engine, script) = (test_engine().build()?, Script::new());
    let start = |disk, (), ctx: Context| async move {
        let engine = test_engine().build_nested(&ctx)?;
        engine.install(A, disk).await?;
        Ok::<NestedEngine, Exit>(engine)
    };
    let mut events = EventRecorder::new(&engine);
    script.end(Err(Exit::fatal(Once::default())));

    engine
        .install(SITE, Manifold::builder().start_with(script.manifold(()), start).build())
        .await?;
    let ended = |kind: &EventKind| matches!(kind, EventKind::Ended { .. });
    let ended = events.wait_for_kind("/site", ended).await?;

    let text = "worker /site/a had a fatal error: cannot mount the disk: no space is left";
    assert_eq!(ended.kind.to_string(), format!("ended, failed: {text}"));
    Ok(clean_kill(engine).await?)
}

#[tokio::test(start_paused = true)]
async fn an_error_that_main_returns_is_printed_with_its_causes() -> TestResult {
    let engine = failing().await?;

    let error = engine.wait().await.err().ok_or("it ended well")?;

    let text = "worker /a had a fatal error: cannot mount the disk: no space is left";
    assert_eq!(format!("{error:?}"), text);
    let boxed: Box<dyn Error> = error.into();
    assert_eq!(format!("{boxed:?}"), text);
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_refusal_that_main_returns_is_printed_with_its_cause() -> TestResult {
    let engine = test_engine().build()?;
    let manifold = Script::new().manifold(()).start_timeout(Duration::ZERO);

    let refused = engine.install(A, manifold).await.err().ok_or("it was installed")?;

    let setting = "start_timeout is 0s; expected a duration above zero";
    assert_eq!(format!("{refused:?}"), format!("cannot install manifold \"a\": {setting}"));
    let setting = EngineBuilder::default().event_capacity(0).build().err().ok_or("it was built")?;
    assert_eq!(format!("{setting:?}"), "event_capacity is 0; expected a number above zero");
    let name = Name::<()>::parse("").err().ok_or("it is a name")?;
    assert_eq!(format!("{name:?}"), name.to_string());
    Ok(clean_kill(engine).await?)
}

/// An error that cannot be written.
#[derive(Debug)]
struct Unwritable;

impl fmt::Display for Unwritable {
    fn fmt(&self, _f: &mut fmt::Formatter<'_>) -> fmt::Result {
        panic!("no words for it")
    }
}

impl Error for Unwritable {}

#[tokio::test(start_paused = true)]
async fn a_fatal_error_whose_text_panics_stops_the_engine() -> TestResult {
    let (engine, fails) = (test_engine().build()?, Script::new());
    engine.install(A, fails.manifold(())).await?;
    engine.running(A).await?;

    fails.end(Err(Exit::fatal(Unwritable)));

    assert!(matches!(engine.wait().await, Err(EngineError::Fatal { .. })));
    let error = engine.report().await.error;
    assert_eq!(error.as_deref(), Some("/a: panicked: no words for it"));
    Ok(())
}

/// Panics when it is dropped.
struct Bomb;

impl Drop for Bomb {
    fn drop(&mut self) {
        assert!(std::thread::panicking(), "dropped");
    }
}

/// Ends with a fatal error, and panics when it is dropped.
struct EndsBadly(Bomb);

impl Future for EndsBadly {
    type Output = Outcome;

    fn poll(self: Pin<&mut Self>, _cx: &mut TaskContext<'_>) -> Poll<Outcome> {
        Poll::Ready(Err(Exit::fatal("the disk is gone")))
    }
}

#[tokio::test(start_paused = true)]
async fn a_fatal_error_stops_the_engine_also_if_the_drop_of_the_future_panics() -> TestResult {
    let engine = test_engine().build()?;
    let fails = Manifold::builder().run(|(), _up| EndsBadly(Bomb));

    engine.install(Name::<()>::new("a"), fails).await?;

    let EngineError::Fatal { source, .. } = engine.wait().await.unwrap_err() else {
        panic!("it ends otherwise");
    };
    assert_eq!(source.to_string(), "the disk is gone");
    Ok(())
}
