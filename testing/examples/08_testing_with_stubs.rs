//! Testing manifolds: stubs, driven inputs, scripted workers, a paused clock, and events.
//!
//! Each function is the body of a test: in a program of yours it stands under
//! `#[tokio::test(start_paused = true)]`, which `main` is here.

use std::error::Error;
use std::time::Duration;

use crankcase_engine::{EventKind, Exit, Manifold, Name};
use crankcase_testing::{
    EventRecorder, Harness, Journal, Script, StartError, Stubs, clean_kill, start, test_engine,
};
use tokio::time::Instant;

type TestResult = Result<(), Box<dyn Error>>;

const STORE: Name<u32> = Name::new("store");
const LIMIT: Name<u32> = Name::new("limit");
const INDEX: Name<u32> = Name::new("index");

/// The manifold that is tested: it indexes a store of so many pages, and at most so many of them.
fn index() -> Manifold {
    Manifold::builder().inputs((STORE, LIMIT.optional().or(10))).offers::<(u32,)>().run(
        |(pages, limit), up| async move {
            if pages == 0 {
                return Err(Exit::missing("there are no pages"));
            }
            up.ready((pages.min(limit),)).wait().await;
            Ok(())
        },
    )
}

async fn it_indexes_up_to_its_limit() -> TestResult {
    let started = start(index(), Stubs::new().value(STORE, 30).absent(LIMIT)).await?;
    assert_eq!(started.output::<u32>().await?, 10);
    assert!(started.stop().await.is_ok());

    let started = start(index(), Stubs::new().value(STORE, 30).value(LIMIT, 20)).await?;
    assert_eq!(started.output::<u32>().await?, 20);
    assert!(started.stop().await.is_ok());
    Ok(())
}

async fn it_needs_a_store_with_pages() -> TestResult {
    let waiting = start(index(), Stubs::new().absent(STORE)).await;
    assert!(matches!(waiting, Err(StartError::Waiting(why)) if why.contains("/store")));

    let failing = start(index(), Stubs::new().error(STORE, "the disk is on fire")).await;
    assert!(matches!(failing, Err(StartError::Waiting(why)) if why.contains("the disk")));

    let empty = start(index(), Stubs::new().value(STORE, 0)).await;
    assert!(matches!(empty, Err(StartError::Ended(Err(Exit::Missing(_))))));
    Ok(())
}

async fn it_follows_its_inputs() -> TestResult {
    let mut harness = Harness::new(index()).await?;
    let (mut store, mut limit) = (harness.input(STORE), harness.input(LIMIT));
    harness.expect_waiting("/subject waits for /store, which is not installed").await?;

    store.come(30).await?;
    harness.expect_start().await?;
    limit.come(20).await?;
    harness.expect_bounce().await?;
    harness.expect_output(20_u32).await?;
    store.go().await?;
    harness.expect_stop().await?;
    Ok(harness.finish().await?)
}

async fn it_stops_before_the_store_and_comes_back_with_it() -> TestResult {
    let (engine, journal) = (test_engine().build()?, Journal::new());
    engine.install(STORE, journal.manifold(())).await?;
    engine.install(INDEX, journal.manifold(STORE)).await?;
    engine.running(INDEX).await?;
    journal.take();

    engine.bounce(STORE).await?;
    engine.running(INDEX).await?;

    let expected =
        ["stop index", "end index", "stop store", "end store", "start store", "start index 2"];
    assert_eq!(journal.lines(), expected);
    Ok(clean_kill(engine).await?)
}

async fn it_waits_a_second_after_a_failure() -> TestResult {
    let engine = test_engine().build()?;
    let mut events = EventRecorder::new(&engine);
    let store = Script::new();
    engine.install(STORE, store.manifold(())).await?;
    engine.install(INDEX, index()).await?;
    engine.running(INDEX).await?;

    let failed = Instant::now();
    store.panic("out of range");
    events.wait_for(|event| event.kind == EventKind::Started { generation: 2 }).await?;

    assert_eq!(failed.elapsed(), Duration::from_secs(1));
    assert!(events.lines().contains(&"/store ended, failed: panicked: out of range".to_owned()));
    Ok(clean_kill(engine).await?)
}

#[tokio::main(flavor = "current_thread", start_paused = true)]
#[expect(clippy::print_stdout, reason = "what it prints is what it shows")]
async fn main() -> TestResult {
    it_indexes_up_to_its_limit().await?;
    println!("it indexes up to its limit");
    it_needs_a_store_with_pages().await?;
    println!("it needs a store with pages");
    it_follows_its_inputs().await?;
    println!("it follows its inputs");
    it_stops_before_the_store_and_comes_back_with_it().await?;
    println!("it stops before the store, and comes back with it");
    it_waits_a_second_after_a_failure().await?;
    println!("it waits a second after a failure");
    Ok(())
}
