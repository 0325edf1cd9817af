//! Engines that are found by their paths.

use std::error::Error;
use std::time::Duration;

use crankcase_engine::{Change, Detail, Engine, Manifold, Name, Nested};
use tokio::time::timeout;

use crate::stop_all;

const SITE: Name<()> = Name::new("site");
const PAGE: Name<()> = Name::new("page");
const NAME: Name<()> = Name::new("agent");

fn page() -> Manifold {
    Manifold::builder().run(|(), up| async move {
        up.ready(()).wait().await;
        Ok(())
    })
}

fn site() -> Manifold {
    Manifold::builder()
        .start(|(), ctx| async move {
            let engine = Engine::builder().build_nested(&ctx)?;
            engine.install(PAGE, page()).await?;
            Ok(engine)
        })
        .report(|engine| engine.reporter())
        .build()
}

#[tokio::test]
async fn an_engine_finds_those_nested_in_it() -> Result<(), Box<dyn Error>> {
    let engine = Engine::builder().name(NAME).build()?;
    engine.install(SITE, site()).await?;
    engine.running(SITE).await?;

    let nested = engine.engine_at("/agent/site").ok_or("it is not found")?;

    nested.running(PAGE).await?;
    let engines = engine.engines();
    let paths: Vec<_> = engines.iter().map(Engine::path).collect();
    assert_eq!(paths, ["/agent", "/agent/site"]);
    assert!(engine.engine_at("/agent/site/page").is_none());
    assert!(nested.engine_at("/agent").is_none());
    stop_all(&engine).await
}

#[tokio::test]
async fn a_nested_engine_that_was_bounced_is_found_anew() -> Result<(), Box<dyn Error>> {
    let engine = Engine::builder().name(NAME).build()?;
    engine.install(SITE, site()).await?;
    engine.running(SITE).await?;
    let before = engine.engine_at("/agent/site").ok_or("it is not found")?;

    engine.bounce(SITE).await?;
    engine.settled().await?;
    before.wait().await?;
    drop(before);

    let after = engine.engine_at("/agent/site").ok_or("it is not found")?;
    after.running(PAGE).await?;
    stop_all(&engine).await
}

#[tokio::test]
async fn an_engine_that_has_ended_is_not_listed_though_a_stop_of_it_is_kept()
-> Result<(), Box<dyn Error>> {
    let engine = Engine::builder().build()?;
    let (hand_out, mut handed_out) = tokio::sync::mpsc::unbounded_channel();
    let contents = move || {
        let page = Manifold::builder().run_with(hand_out.clone(), |hand_out, (), up| async move {
            let stop = up.ready(());
            hand_out.send(stop.clone())?;
            stop.wait().await;
            Ok(())
        });
        Change::new().install(PAGE, page)
    };
    let site = SITE.output::<Engine>();
    engine.install_nested(site.clone(), Nested::new(contents)).await?;
    let kept = handed_out.recv().await.ok_or("no page was started")?;
    assert_eq!(engine.engines().len(), 2);

    engine.uninstall(site.clone()).await?;

    assert!(kept.is_stopped());
    assert_eq!(engine.engines().iter().map(Engine::path).collect::<Vec<_>>(), ["/"]);
    assert!(engine.engine_at("/site").is_none());
    stop_all(&engine).await
}

#[test]
fn a_nested_engine_beside_its_engine_reports_while_no_worker_yields() -> Result<(), Box<dyn Error>>
{
    let workers = tokio::runtime::Builder::new_multi_thread().worker_threads(1).build()?;
    let driver = tokio::runtime::Builder::new_current_thread().enable_time().build()?;
    let report = driver.block_on(async {
        let engine = Engine::builder().workers_on(workers.handle().clone()).build()?;
        let (release, held) = std::sync::mpsc::channel::<()>();
        let (taken, is_taken) = tokio::sync::oneshot::channel();
        drop(workers.spawn(async move {
            taken.send(()).unwrap();
            held.recv().unwrap_err();
        }));
        is_taken.await?;
        engine.install(SITE, site().beside_engine()).await?;
        timeout(Duration::from_secs(60), engine.running(SITE)).await??;
        let report = engine.report().await;
        drop(release);
        stop_all(&engine).await?;
        Ok::<_, Box<dyn Error>>(report)
    })?;

    assert!(matches!(report.workers["site"].report, Some(Detail::Engine(_))), "{report}");
    Ok(())
}
