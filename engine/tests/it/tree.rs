//! Engines that are found by their paths.

use std::error::Error;
use std::time::Duration;

use crankcase_engine::{Detail, Engine, Manifold, Name};
use tokio::time::timeout;

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
    let engine = Engine::builder().name(&NAME).build()?;
    engine.install(SITE, site()).await?;
    engine.running(&SITE).await?;

    let nested = engine.engine_at("/agent/site").ok_or("it is not found")?;

    nested.running(&PAGE).await?;
    let engines = engine.engines();
    let paths: Vec<_> = engines.iter().map(Engine::path).collect();
    assert_eq!(paths, ["/agent", "/agent/site"]);
    assert!(engine.engine_at("/agent/site/page").is_none());
    assert!(nested.engine_at("/agent").is_none());
    Ok(engine.stop().await?)
}

#[tokio::test]
async fn a_nested_engine_that_was_bounced_is_found_anew() -> Result<(), Box<dyn Error>> {
    let engine = Engine::builder().name(&NAME).build()?;
    engine.install(SITE, site()).await?;
    engine.running(&SITE).await?;
    let before = engine.engine_at("/agent/site").ok_or("it is not found")?;

    engine.bounce(&SITE).await?;
    engine.settled().await?;
    before.wait().await?;
    drop(before);

    let after = engine.engine_at("/agent/site").ok_or("it is not found")?;
    after.running(&PAGE).await?;
    Ok(engine.stop().await?)
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
        timeout(Duration::from_secs(60), engine.running(&SITE)).await??;
        let report = engine.report().await;
        drop(release);
        engine.stop().await?;
        Ok::<_, Box<dyn Error>>(report)
    })?;

    assert!(matches!(report.workers["site"].report, Some(Detail::Engine(_))), "{report}");
    Ok(())
}
