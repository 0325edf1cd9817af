//! The manifold of a config file: new, wrong, late and unwatched versions of it.

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use crankcase_engine::{Engine, EventKind, Manifold, Name, WorkerState};
use crankcase_manifolds::{config_file, file_watch};
use crankcase_testing::{Bare, EventRecorder, Journal, clean_kill, test_engine, wait_for_state};
use crankcase_workers::{ConfigFileConfig, Watcher, WatcherConfig, Watches};
use parking_lot::Mutex;
use serde::Deserialize;
use tokio::sync::mpsc;

use crate::process::{Error, TestResult, guarded};

const WATCHES: Name<Watches> = Name::new("watches");
const LIMITS: Name<Arc<Limits>> = Name::new("limits");
const USER: Name<u32> = Name::new("user");

#[derive(Debug, PartialEq, Deserialize)]
struct Limits {
    depth: u32,
}

fn limits(path: &Path) -> Result<Manifold, Error> {
    let valid = |_limits: &Limits| Ok(());
    Ok(config_file::manifold(ConfigFileConfig::new(path), WATCHES, valid)?)
}

async fn engine(path: &Path) -> Result<Engine, Error> {
    let engine = test_engine().build()?;
    engine.install(WATCHES, file_watch::manifold(WatcherConfig::default())?).await?;
    engine.install(LIMITS, limits(path)?).await?;
    Ok(engine)
}

#[tokio::test]
async fn a_new_version_bounces_those_who_require_it() -> TestResult {
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("limits.yaml");
    fs::write(&path, "depth: 1")?;
    let engine = engine(&path).await?;
    let user = Manifold::builder().inputs(LIMITS).offers::<(u32,)>();
    let user = user.run(|limits, up| async move {
        up.ready((limits.depth,)).wait().await;
        Ok(())
    });
    engine.install(USER, user).await?;
    assert_eq!(guarded(engine.output(USER).into_future()).await?, 1);
    let mut depths = engine.output(USER).follow().await?;

    fs::write(&path, "depth: 2")?;

    while guarded(depths.changed()).await? != Some(2) {}
    Ok(clean_kill(engine).await?)
}

#[tokio::test]
async fn a_bad_version_is_in_the_report_with_its_place() -> TestResult {
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("limits.yaml");
    fs::write(&path, "depth: 1")?;
    let engine = engine(&path).await?;
    guarded(engine.running(LIMITS)).await?;
    let mut events = EventRecorder::new(&engine);

    fs::write(&path, "depth: deep")?;

    let place = format!("{}:1:8: invalid u32: found \"deep\"", path.display());
    let is_degraded = |kind: &EventKind| matches!(kind, EventKind::Health { degraded: Some(reason) } if reason.contains(&place));
    guarded(events.wait_for(|event| is_degraded(&event.kind))).await?;
    let report = guarded(engine.report()).await;
    let degraded = report.workers["limits"].degraded.clone().ok_or("in good health")?;
    assert!(degraded.contains(&place), "{degraded}");
    assert_eq!(guarded(engine.output(LIMITS).into_future()).await?.depth, 1);
    Ok(clean_kill(engine).await?)
}

#[tokio::test]
async fn a_file_that_comes_late_is_found() -> TestResult {
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("limits.yaml");
    let engine = engine(&path).await?;
    guarded(wait_for_state(&engine, "limits", WorkerState::BackingOff)).await?;
    let report = guarded(engine.report()).await;
    let error = report.workers["limits"].error.clone().ok_or("no error")?;
    assert!(error.text.contains("No such file or directory"), "{}", error.text);

    fs::write(&path, "depth: 4")?;
    engine.bounce(LIMITS).await?;

    assert_eq!(guarded(engine.output(LIMITS).into_future()).await?.depth, 4);
    Ok(clean_kill(engine).await?)
}

#[tokio::test]
async fn a_bounce_with_a_bad_file_keeps_the_last_good_version() -> TestResult {
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("limits.yaml");
    fs::write(&path, "depth: 1")?;
    let engine = engine(&path).await?;
    guarded(engine.running(LIMITS)).await?;
    fs::remove_file(&path)?;

    guarded(engine.bounce(LIMITS)).await?;

    assert_eq!(guarded(engine.output(LIMITS).into_future()).await?.depth, 1);
    Ok(clean_kill(engine).await?)
}

#[tokio::test]
async fn two_generations_never_judge_a_file_at_once() -> TestResult {
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("limits.yaml");
    fs::write(&path, "depth: 1")?;
    let (journal, (tell, mut told)) = (Journal::new(), mpsc::unbounded_channel());
    let (release, released) = std::sync::mpsc::channel::<()>();
    let (judged, released) = (journal.clone(), Mutex::new(released));
    let judge = move |_limits: &Limits| {
        judged.note("begins");
        tell.send(())?;
        // An error: all are released at once.
        released.lock().recv().unwrap_or_default();
        judged.note("ends");
        Ok(())
    };
    let limits = config_file::manifold(ConfigFileConfig::new(&path), WATCHES, judge)?;
    let engine = test_engine().build()?;
    let at_once = limits.bounce_delay(Duration::ZERO).grace(Duration::ZERO);
    let at_once = at_once.abort_grace(Duration::ZERO);
    engine.install(LIMITS, at_once).await?;
    guarded(told.recv()).await.ok_or("it is not judged")?;

    // It answers that the worker is stuck.
    drop(engine.bounce(LIMITS));
    guarded(wait_for_state(&engine, "limits", WorkerState::Stuck)).await?;
    drop(release);
    guarded(engine.running(LIMITS).into_future()).await?;

    assert_eq!(journal.lines()[..3], ["begins", "ends", "begins"]);
    Ok(engine.stop().await?)
}

#[tokio::test]
async fn a_watcher_that_is_bounced_bounces_no_config_file() -> TestResult {
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("limits.yaml");
    fs::write(&path, "depth: 1")?;
    let engine = engine(&path).await?;
    guarded(engine.running(LIMITS)).await?;
    let mut depths = engine.output(LIMITS).follow().await?;

    guarded(engine.bounce(WATCHES)).await?;
    fs::write(&path, "depth: 2")?;

    while guarded(depths.changed()).await?.is_none_or(|limits| limits.depth != 2) {}
    assert_eq!(guarded(engine.report()).await.workers["limits"].generation, 1);
    Ok(clean_kill(engine).await?)
}

#[tokio::test(start_paused = true)]
async fn a_file_that_nothing_watches_is_degraded_until_there_is_a_watcher() -> TestResult {
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("limits.yaml");
    fs::write(&path, "depth: 1")?;
    let engine = test_engine().build()?;
    let mut events = EventRecorder::new(&engine);
    engine.install(LIMITS, limits(&path)?).await?;
    let health = |degraded: Option<String>| EventKind::Health { degraded };

    let text = format!("changes of {path:?} are not seen: there is no file watcher");
    events.wait_for(|event| event.kind == health(Some(text.clone()))).await?;
    engine.install(WATCHES, file_watch::manifold(WatcherConfig::default())?).await?;
    events.wait_for(|event| event.kind == health(None)).await?;

    Ok(clean_kill(engine).await?)
}

#[tokio::test]
async fn a_watcher_that_has_ended_is_no_watcher_until_there_is_another() -> TestResult {
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("limits.yaml");
    fs::write(&path, "depth: 1")?;
    let ended = Watcher::new(WatcherConfig::default())?;
    let watches = ended.handle();
    clean_kill(Bare::run(ended)).await?;
    let watcher = Watcher::new(WatcherConfig::default())?;
    let (others, running) = (watcher.handle(), Bare::run(watcher));
    let engine = test_engine().build()?;
    engine.provide(WATCHES, watches).await?;
    let mut events = EventRecorder::new(&engine);
    engine.install(LIMITS, limits(&path)?).await?;
    let health = |degraded: Option<String>| EventKind::Health { degraded };

    let text = format!("changes of {path:?} are not seen: there is no file watcher");
    guarded(events.wait_for(|event| event.kind == health(Some(text.clone())))).await?;
    engine.provide(WATCHES, others).await?;
    guarded(events.wait_for(|event| event.kind == health(None))).await?;

    assert_eq!(engine.report().await.workers["limits"].generation, 1);
    clean_kill(engine).await?;
    Ok(clean_kill(running).await?)
}
