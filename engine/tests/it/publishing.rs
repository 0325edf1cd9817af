//! Values whose publisher learns when its followers read them.

use std::sync::Arc;
use std::time::Duration;

use crankcase_engine::{
    Change, Changing, Engine, EventKind, Family, Live, LiveSet, Manifold, Name, Nested, Outcome,
    Publisher, Stop, Unacknowledged, Worker, WorkerState,
};
use crankcase_testing::{EventRecorder, Journal, Script, clean_kill, test_engine, wait_for_state};
use tokio::runtime::{Builder, Handle};
use tokio::time::timeout;

use crate::{A, B, C, TestResult};

const SITE: Name<Engine> = Name::new("site");
const HANGS: Duration = Duration::from_secs(60);

/// Returns a worker that offers the values of a publisher.
fn source(publisher: &Arc<Publisher<u32>>) -> Manifold {
    let builder = Manifold::builder().offers::<(Changing<u32>,)>();
    builder.run_with(Arc::clone(publisher), |publisher, (), up| async move {
        up.ready((publisher.changing(),)).wait().await;
        Ok(())
    })
}

/// Returns an engine whose `a` offers the values of a publisher.
async fn published() -> Result<(Engine, Arc<Publisher<u32>>), Box<dyn std::error::Error>> {
    let (engine, publisher) = (test_engine().build()?, Arc::new(Publisher::new(1)));
    engine.install(A, source(&publisher)).await?;
    engine.running(A).await?;
    Ok((engine, publisher))
}

#[tokio::test(start_paused = true)]
async fn a_follower_reads_the_new_value_once_it_is_acknowledged_and_not_before() -> TestResult {
    let (engine, publisher) = published().await?;
    let input = engine.output(A).follow().await?;

    let publish = publisher.publish(2);
    assert_eq!(input.get(), Some(1));
    publish.await?;

    assert_eq!(input.get(), Some(2));
    Ok(clean_kill(engine).await?)
}

#[tokio::test(start_paused = true)]
async fn a_worker_with_separate_steps_publishes_too() -> TestResult {
    struct Counter {
        count: Publisher<u32>,
    }

    impl Worker for Counter {
        async fn run(self, stop: Stop) -> Outcome {
            self.count.publish(7).await?;
            stop.wait().await;
            Ok(())
        }
    }

    let engine = test_engine().build()?;
    let counter = Manifold::builder()
        .start(|(), _ctx| async move { Ok(Counter { count: Publisher::new(6) }) })
        .publishing(|counter| &counter.count);
    engine.install(A, counter).await?;
    let mut count = engine.output(A).follow().await?;

    while count.value().await? != 7 {
        count.changed().await?;
    }

    assert_eq!(engine.report().await.workers["a"].generation, 1);
    Ok(clean_kill(engine).await?)
}

#[tokio::test(start_paused = true)]
async fn a_nested_engine_gets_an_acknowledged_value_too() -> TestResult {
    let (engine, publisher) = published().await?;
    let site = Nested::new(Change::new).engine(|_| test_engine()).import(A, A);
    engine.install_nested(SITE, site).await?;
    let mut inside = engine.output(SITE).await?.output(A).follow().await?;
    assert_eq!(inside.value().await?, 1);

    publisher.publish(2).await?;

    // It comes on its own, and perhaps later.
    while inside.value().await? != 2 {
        inside.changed().await?;
    }
    Ok(clean_kill(engine).await?)
}

#[tokio::test(start_paused = true)]
async fn a_reader_of_a_part_has_the_part_of_an_acknowledged_value() -> TestResult {
    const TENS: Name<Live<u32>> = Name::new("tens");
    let (engine, publisher) = published().await?;
    let reader = Manifold::builder().inputs(A.select(|value| value / 10).live());
    let reader = reader.offers::<(Live<u32>,)>().run(|tens: Live<u32>, up| async move {
        up.ready((tens,)).wait().await;
        Ok(())
    });
    engine.install(TENS, reader).await?;
    let tens = engine.output(TENS).await?;
    assert_eq!(tens.get(), Some(0));

    drop(publisher.publish(20));
    publisher.publish(21).await?;

    assert_eq!(tens.get(), Some(2));
    Ok(clean_kill(engine).await?)
}

#[tokio::test(start_paused = true)]
async fn a_live_set_has_the_value_once_it_is_acknowledged() -> TestResult {
    const TENANTS: Family<u32> = Family::new("tenant-*");
    const WEB: Name<LiveSet<u32>> = Name::new("web");
    let (engine, publisher) = (test_engine().build()?, Arc::new(Publisher::new(1)));
    let web = Manifold::builder().inputs(TENANTS.live()).offers::<(LiveSet<u32>,)>();
    let web = web.run(|tenants: LiveSet<u32>, up| async move {
        up.ready((tenants,)).wait().await;
        Ok(())
    });
    engine.install(TENANTS.name("one")?, source(&publisher)).await?;
    engine.install(WEB, web).await?;
    let tenants = engine.output(WEB).await?;
    engine.settled().await?;

    publisher.publish(2).await?;

    assert_eq!(tenants.get("one"), Some(2));
    Ok(clean_kill(engine).await?)
}

#[tokio::test(start_paused = true)]
async fn an_equal_value_is_acknowledged_too_and_is_no_change() -> TestResult {
    let (engine, publisher) = published().await?;
    let mut events = EventRecorder::new(&engine);

    publisher.publish(1).await?;
    engine.settled().await?;
    clean_kill(engine).await?;

    events.finish().await?;
    assert!(!events.seen().iter().any(|event| matches!(event.kind, EventKind::Changed { .. })));
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_value_stays_published_if_nobody_waits_for_it() -> TestResult {
    let (engine, publisher) = published().await?;
    let mut input = engine.output(A).follow().await?;

    drop(publisher.publish(2));

    assert_eq!(input.changed().await?, Some(2));
    Ok(clean_kill(engine).await?)
}

#[tokio::test(start_paused = true)]
async fn a_value_that_no_worker_offers_is_not_acknowledged() -> TestResult {
    let publisher = Publisher::new(1);
    assert_eq!(publisher.publish(2).await, Err(Unacknowledged));

    drop(publisher.changing());
    assert_eq!(publisher.publish(3).await, Err(Unacknowledged));

    let (engine, publisher) = published().await?;
    clean_kill(engine).await?;
    assert_eq!(publisher.publish(4).await, Err(Unacknowledged));
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn the_first_value_of_the_next_worker_is_the_last_one_published() -> TestResult {
    let (engine, publisher) = published().await?;
    engine.park(A).await?;
    assert_eq!(publisher.publish(2).await, Err(Unacknowledged));

    engine.unpark(A).await?;

    assert_eq!(engine.output(A).await?, 2);
    publisher.publish(3).await?;
    assert_eq!(engine.output(A).await?, 3);
    Ok(clean_kill(engine).await?)
}

#[tokio::test(start_paused = true)]
async fn a_value_of_a_worker_that_closes_for_good_is_not_acknowledged() -> TestResult {
    let (engine, publisher) = published().await?;
    let slow = Script::new();
    slow.stop_after(Duration::from_secs(20));
    engine.install(B, slow.manifold(A)).await?;
    engine.running(B).await?;

    let (uninstalled, published) = tokio::join!(engine.uninstall(A), async {
        wait_for_state(&engine, "a", WorkerState::Closing)
            .await
            .map_err(|_| "it does not close")?;
        Ok::<_, &str>(publisher.publish(2).await)
    });

    uninstalled?;
    assert_eq!(published, Ok(Err(Unacknowledged)));
    Ok(clean_kill(engine).await?)
}

#[tokio::test(start_paused = true)]
async fn a_publish_waits_for_no_user_that_the_value_bounces() -> TestResult {
    let (engine, publisher) = published().await?;
    let (journal, slow) = (Journal::new(), Script::new());
    slow.stop_after(Duration::from_secs(20));
    engine.install(B, slow.recorded_in(&journal).manifold(A)).await?;
    engine.running(B).await?;
    let began = tokio::time::Instant::now();

    publisher.publish(2).await?;

    assert_eq!(began.elapsed(), Duration::ZERO);
    engine.settled().await?;
    assert_eq!(journal.starts("b"), 2);
    Ok(clean_kill(engine).await?)
}

#[tokio::test]
async fn a_blocking_worker_waits_for_its_followers() -> TestResult {
    let engine = test_engine().build()?;
    let builder = Manifold::builder().offers::<(Changing<u32>,)>();
    let blocking = builder.run_blocking(|(), up| {
        let publisher = Publisher::new(1);
        let stop = up.ready((publisher.changing(),));
        Handle::current().block_on(publisher.publish(2))?;
        stop.wait_blocking();
        Ok(())
    });
    engine.install(C, blocking).await?;
    let mut value = engine.output(C).follow().await?;

    while value.value().await? != 2 {
        value.changed().await?;
    }

    Ok(clean_kill(engine).await?)
}

#[test]
fn a_publish_ends_with_the_runtime_of_its_engine() -> TestResult {
    let workers = Builder::new_multi_thread().worker_threads(1).enable_time().build()?;
    let driver = Builder::new_current_thread().enable_time().build()?;
    let publisher = Arc::new(Publisher::new(1));
    let engine = driver.block_on(async {
        let engine = Engine::builder().workers_on(workers.handle().clone()).build()?;
        engine.install(A, source(&publisher)).await?;
        engine.running(A).await?;
        Ok::<_, Box<dyn std::error::Error>>(engine)
    })?;

    // Nothing takes the value any more, because the loop gets no turn.
    let published = publisher.publish(2);
    drop(driver);

    let published = workers.block_on(async { timeout(HANGS, published).await })?;
    assert_eq!(published, Err(Unacknowledged));
    drop(engine);
    Ok(())
}
