//! What a report says of starts.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use crankcase_engine::{Backoff, Change, Exit, Manifold, Name, StartReport, Timestamp, WaitedFor};
use crankcase_testing::{clean_kill, test_engine, test_policy};
use tokio::time::{advance, sleep};

use crate::TestResult;

const DISK: Name<u32> = Name::new("disk");
const WEB: Name<()> = Name::new("web");

const SECOND: Duration = Duration::from_secs(1);

/// Returns a worker whose start takes some seconds.
fn slow(seconds: u32) -> Manifold {
    Manifold::builder().offers::<(u32,)>().run(move |(), up| async move {
        sleep(SECOND * seconds).await;
        up.ready((1,)).wait().await;
        Ok(())
    })
}

fn web(seconds: u32) -> Manifold {
    Manifold::builder().inputs(DISK).run(move |_, up| async move {
        sleep(SECOND * seconds).await;
        up.ready(()).wait().await;
        Ok(())
    })
}

fn took(start: &StartReport) -> Result<Duration, Box<dyn std::error::Error>> {
    let Timestamp(up) = start.up.ok_or("it is not up")?;
    Ok(up.duration_since(start.begun.0)?)
}

#[tokio::test(start_paused = true)]
async fn a_start_says_what_it_waited_for_and_how_long_it_took() -> TestResult {
    let engine = test_engine().build()?;
    engine.install(WEB, web(1)).await?;
    advance(5 * SECOND).await;
    engine.install(DISK, slow(2)).await?;
    engine.running(WEB).await?;

    let report = engine.report().await;

    let (disk, web) = (&report.workers["disk"], &report.workers["web"]);
    let (of_disk, of_web) = (disk.last_start.as_ref(), web.last_start.as_ref());
    let (of_disk, of_web) = (of_disk.ok_or("not started")?, of_web.ok_or("not started")?);
    assert_eq!(of_disk.waited_for, WaitedFor::Call);
    assert_eq!((disk.installed, took(of_disk)?), (Some(of_disk.ready), 2 * SECOND));
    assert_eq!(of_web.waited_for, WaitedFor::Input("disk".to_owned()));
    assert_eq!((Some(of_web.ready), took(of_web)?), (of_disk.up, SECOND));
    let waited = of_web.ready.0.duration_since(web.installed.ok_or("not installed")?.0)?;
    assert_eq!(waited, 7 * SECOND);
    assert_eq!((&disk.first_start, &web.first_start), (&None, &None));
    Ok(clean_kill(engine).await?)
}

#[tokio::test(start_paused = true)]
async fn the_first_start_outlives_bounces() -> TestResult {
    let engine = test_engine().build()?;
    engine.install(DISK, slow(2)).await?;
    engine.install(WEB, web(1)).await?;
    engine.running(WEB).await?;
    let before = engine.report().await;
    advance(10 * SECOND).await;
    for _ in 0..2 {
        engine.bounce(DISK).await?;
        engine.running(WEB).await?;
    }

    let report = engine.report().await;

    for name in ["disk", "web"] {
        let (before, worker) = (&before.workers[name], &report.workers[name]);
        assert_eq!(worker.first_start, before.last_start, "of {name}");
        assert_eq!(worker.installed, before.installed, "of {name}");
        assert_eq!(worker.last_start.as_ref().map(|last| last.generation), Some(3));
    }
    let last = |name: &str| report.workers[name].last_start.as_ref().map(|it| &it.waited_for);
    assert_eq!(last("disk"), Some(&WaitedFor::Delay));
    assert_eq!(last("web"), Some(&WaitedFor::Input("disk".to_owned())));
    Ok(clean_kill(engine).await?)
}

#[tokio::test(start_paused = true)]
async fn the_first_start_is_the_first_one_that_comes_up() -> TestResult {
    let backoff = Backoff::default().jitter(0.0).initial(4 * SECOND);
    let engine = test_engine().policy(test_policy().backoff(backoff)).build()?;
    let tries = Arc::new(AtomicU32::new(0));
    let flaky = Manifold::builder().run(move |(), up| {
        let is_first = tries.fetch_add(1, Ordering::Relaxed) == 0;
        async move {
            if is_first {
                return Err(Exit::failed("no disk"));
            }
            up.ready(()).wait().await;
            Ok(())
        }
    });
    engine.install(WEB, flaky).await?;
    engine.running(WEB).await?;

    let report = engine.report().await;

    let worker = &report.workers["web"];
    let start = worker.last_start.as_ref().ok_or("no start")?;
    assert_eq!((worker.first_start.as_ref(), start.generation), (None, 2));
    assert_eq!((took(start)?, &start.waited_for), (Duration::ZERO, &WaitedFor::Backoff));
    engine.bounce(WEB).await?;
    engine.running(WEB).await?;
    let report = engine.report().await;
    assert_eq!(report.workers["web"].first_start.as_ref(), Some(start));
    Ok(clean_kill(engine).await?)
}

#[tokio::test(start_paused = true)]
async fn a_replaced_manifold_keeps_the_first_start_of_its_name() -> TestResult {
    let engine = test_engine().build()?;
    engine.install(DISK, slow(2)).await?;
    engine.install(WEB, web(1)).await?;
    engine.running(WEB).await?;
    let before = engine.report().await;
    advance(SECOND).await;
    let idle = Manifold::builder().run(|(), up| async move {
        up.ready(()).wait().await;
        Ok(())
    });
    engine.apply(Change::new().replace(WEB, idle).uninstall(DISK)).await?;
    engine.running(WEB).await?;

    let report = engine.report().await;

    let (before, after) = (&before.workers["web"], &report.workers["web"]);
    assert_eq!((&after.first_start, after.installed), (&before.last_start, before.installed));
    assert_eq!(after.last_start.as_ref().map(|last| &last.waited_for), Some(&WaitedFor::Delay));
    Ok(clean_kill(engine).await?)
}

#[tokio::test(start_paused = true)]
async fn a_manifold_that_is_installed_anew_has_starts_of_its_own() -> TestResult {
    let engine = test_engine().build()?;
    engine.install(DISK, slow(2)).await?;
    engine.install(WEB, web(1)).await?;
    engine.running(WEB).await?;
    engine.uninstall_with_dependents(DISK).await?;
    engine.install(WEB, web(1)).await?;

    let report = engine.report().await;

    let web = &report.workers["web"];
    assert_eq!((&web.first_start, &web.last_start), (&None, &None));
    assert_eq!(web.installed, Some(report.at));
    Ok(clean_kill(engine).await?)
}
