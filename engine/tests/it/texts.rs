//! Texts without end that workers and callers give: what is kept of them, and that it says so.

use std::fmt;

use crankcase_engine::manifold::Up;
use crankcase_engine::{Engine, EventKind, Exit, Health, Journal, Manifold, Origin};
use crankcase_testing::{EventRecorder, clean_kill, test_engine};
use tokio::sync::mpsc::unbounded_channel;

use crate::{A, Idle, TestResult, stop_all};

const BOUND: usize = 64 * 1024;
const MARK: &str = " [cut after 64 KiB]";

fn long() -> String {
    "x".repeat(10_000_000)
}

/// Checks that a text is the beginning of a long one, and says that it was cut.
fn check_cut(text: &str, beginning: &str) -> TestResult {
    let is_cut = text.len() == BOUND
        && text.starts_with(beginning)
        && text.strip_suffix(MARK).is_some_and(|kept| kept.ends_with('x'));
    let shown: String = text.chars().take(100).collect();
    if is_cut { Ok(()) } else { Err(format!("{} bytes: {shown}", text.len()).into()) }
}

/// Returns a manifold whose first worker ends with what is made here.
fn ends(make: fn() -> Exit) -> Manifold {
    Manifold::builder().offers::<(u32,)>().run_with(make, |make, (), up: Up<(u32,)>| async move {
        if up.context().generation() == 1 {
            return Err(make());
        }
        up.ready((1,)).wait().await;
        Ok(())
    })
}

/// Checks the text of a worker's end in its event, in the report and in the chain to the cause.
async fn check_end(make: fn() -> Exit, beginning: &str) -> TestResult {
    let engine = test_engine().build()?;
    let mut events = EventRecorder::new(&engine);
    engine.install(A, ends(make)).await?;
    let is_end = |kind: &EventKind| matches!(kind, EventKind::Ended { .. });
    let ended = events.wait_for_kind("/a", is_end).await?;
    let EventKind::Ended { error: Some(error), .. } = ended.kind else {
        return Err("it ended without an error".into());
    };
    check_cut(&error, beginning)?;

    let report = engine.report().await;
    check_cut(&report.workers["a"].error.as_ref().ok_or("no error")?.text, beginning)?;
    let why = engine.why("a").await.ok_or("no a")?;
    check_cut(why.steps[0].error.as_ref().ok_or("no cause")?, beginning)?;
    stop_all(&engine).await
}

#[tokio::test(start_paused = true)]
async fn an_error_without_end_is_cut() -> TestResult {
    check_end(|| Exit::failed(long()), "xxx").await
}

#[tokio::test(start_paused = true)]
async fn a_reason_without_end_is_cut() -> TestResult {
    check_end(|| Exit::missing(long()), "xxx").await?;
    check_end(|| Exit::Missing(long()), "xxx").await
}

#[tokio::test(start_paused = true)]
async fn a_panic_without_end_is_cut() -> TestResult {
    check_end(|| std::panic::panic_any(long()), "panicked: xxx").await
}

/// Writes much more than is kept, and must be stopped.
#[derive(Debug)]
struct Endless;

impl fmt::Display for Endless {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for _ in 0..10 * BOUND {
            f.write_str("x")?;
        }
        panic!("nobody has stopped it")
    }
}

/// It is its own cause, too.
impl std::error::Error for Endless {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(self)
    }
}

#[tokio::test(start_paused = true)]
async fn an_error_that_writes_for_ever_is_stopped() -> TestResult {
    check_end(|| Exit::failed(Endless), "xxx").await
}

/// What a worker says of itself.
struct Said {
    health: Health,
    journal: Journal,
}

/// Returns an engine with the voice of its worker.
async fn speaking() -> Result<(Engine, Said), Box<dyn std::error::Error>> {
    let engine = test_engine().build()?;
    let (sender, mut voices) = unbounded_channel();
    let speaking = Manifold::builder().offers::<(u32,)>().run(move |(), up| {
        let ctx = up.context();
        sender.send(Said { health: ctx.health(), journal: ctx.journal() }).ok();
        let stop = up.ready((1,));
        async move {
            stop.wait().await;
            Ok(())
        }
    });
    engine.install(A, speaking).await?;
    engine.running(A).await?;
    let said = voices.recv().await.ok_or("no worker")?;
    Ok((engine, said))
}

#[tokio::test(start_paused = true)]
async fn a_health_without_end_is_cut() -> TestResult {
    let (engine, said) = speaking().await?;
    let mut events = EventRecorder::new(&engine);
    let soon = tokio::time::Instant::now();
    let ways: [fn(&Health, tokio::time::Instant); 2] =
        [|health, _| health.degraded(long()), |health, soon| health.degraded_until(soon, long())];

    for say in ways {
        said.health.good();
        say(&said.health, soon);
        let is_degraded =
            |kind: &EventKind| matches!(kind, EventKind::Health { degraded: Some(_) });
        let event = events.wait_for_kind("/a", is_degraded).await?;
        let EventKind::Health { degraded: Some(reason) } = event.kind else {
            return Err("it is well".into());
        };
        check_cut(&reason, "xxx")?;
        let report = engine.report().await;
        check_cut(report.workers["a"].degraded.as_ref().ok_or("it is well")?, "xxx")?;
        said.health.good();
        events.wait_for_kind("/a", |kind| *kind == EventKind::Health { degraded: None }).await?;
    }
    Ok(clean_kill(engine).await?)
}

#[tokio::test(start_paused = true)]
async fn a_note_and_its_origin_without_end_are_cut() -> TestResult {
    let (engine, said) = speaking().await?;
    let mut events = EventRecorder::new(&engine);

    said.journal.note(long(), Origin::new(long(), long()));

    let is_note = |kind: &EventKind| matches!(kind, EventKind::Noted { .. });
    let event = events.wait_for_kind("/a", is_note).await?;
    check_cut(&event.kind.to_string(), "xxx")?;
    let origin = event.origin.as_ref().ok_or("no origin")?;
    check_cut(&origin.who, "xxx")?;
    check_cut(&origin.why, "xxx")?;
    Ok(clean_kill(engine).await?)
}

#[tokio::test(start_paused = true)]
async fn who_asks_without_end_is_cut() -> TestResult {
    let (engine, _said) = speaking().await?;

    engine.asked_by(long(), long()).park(A).await?;

    let report = engine.report().await;
    let origin = report.workers["a"].parked_by.as_ref().ok_or("nobody")?;
    check_cut(&origin.who, "xxx")?;
    check_cut(&origin.why, "xxx")?;
    Ok(clean_kill(engine).await?)
}

#[tokio::test(start_paused = true)]
async fn a_panic_of_a_reporter_without_end_is_cut() -> TestResult {
    let engine = test_engine().build()?;
    let panics = || -> serde_json::Value { std::panic::panic_any(long()) };
    let reporting = Manifold::builder()
        .start(|(), _| async { Ok(Idle) })
        .output(|_| 1_u32)
        .report(move |_| move || async move { panics() });
    engine.install(A, reporting.build()).await?;
    engine.running(A).await?;

    let report = engine.report().await;

    check_cut(report.workers["a"].reporter.as_ref().ok_or("it has answered")?, "panicked: xxx")?;
    Ok(clean_kill(engine).await?)
}
