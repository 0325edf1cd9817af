//! What follows from an engine's seed, and what does not wait in step.

use std::collections::BTreeSet;
use std::time::Duration;

use crankcase_engine::{Engine, EventKind, Exit, Manifold, Name, Outcome, Stop, Worker};
use crankcase_testing::{EventRecorder, Script, clean_kill, test_engine};

use crate::delays::{self, fail_times};
use crate::{A, TestResult};

#[tokio::test(start_paused = true)]
async fn engines_without_a_seed_do_not_wait_in_step() -> TestResult {
    let (one, other) = (Engine::builder().build()?, Engine::builder().build()?);

    let waits = [fail_times(&one, 3).await?, fail_times(&other, 3).await?];

    assert_ne!(waits[0], waits[1]);
    assert_ne!(one.seed(), other.seed());
    clean_kill(one).await?;
    Ok(clean_kill(other).await?)
}

/// Returns how long the same worker waits in two nested engines of one with this seed.
async fn nested_waits(seed: u64) -> Result<[Vec<Duration>; 2], Box<dyn std::error::Error>> {
    let engine = Engine::builder().seed(seed).build()?;
    let nested = Manifold::builder()
        .start(|(), ctx| async move { Ok(Engine::builder().build_nested(&ctx)?) })
        .output(|nested| Engine::clone(nested))
        .build();
    let names = [Name::<Engine>::new("north"), Name::<Engine>::new("south")];
    let mut waits = Vec::new();
    for name in names {
        engine.install(name.clone(), nested.clone()).await?;
        let script = Script::new();
        (0..3).for_each(|_| script.fail_start(Exit::failed("not yet")));
        let mut events = EventRecorder::new(&engine);
        engine.output(name.clone()).await?.install(A, script.manifold(())).await?;
        let is_up = |kind: &EventKind| matches!(kind, EventKind::Started { .. });
        events.wait_for_kind(&format!("/{name}/a"), is_up).await?;
        waits.push(delays::waits(&events));
    }
    clean_kill(engine).await?;
    Ok([waits.remove(0), waits.remove(0)])
}

#[tokio::test(start_paused = true)]
async fn nested_engines_do_not_wait_in_step() -> TestResult {
    let [north, south] = nested_waits(7).await?;

    assert_ne!(north, south);
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn the_seed_of_an_engine_decides_how_long_workers_of_nested_ones_wait() -> TestResult {
    let first = nested_waits(7).await?;

    let (again, other) = (nested_waits(7).await?, nested_waits(8).await?);

    assert_eq!(first, again);
    assert_ne!(first, other);
    Ok(())
}

/// A worker that offers the seed that it was given.
struct Seeded(u64);

impl Worker for Seeded {
    async fn run(self, stop: Stop) -> Outcome {
        stop.wait().await;
        Ok(())
    }
}

#[test]
fn a_worker_without_an_engine_has_no_seed() {
    assert_eq!(Stop::pair().1.seed(), None);
}

#[tokio::test(start_paused = true)]
async fn a_worker_is_given_a_seed_of_its_own_each_time() -> TestResult {
    let engine = test_engine().build()?;
    let seeded = Manifold::builder()
        .start(|(), ctx| async move { Ok(Seeded(ctx.seed())) })
        .output(|seeded| seeded.0)
        .build();
    let names = [Name::<u64>::new("one"), Name::<u64>::new("other")];
    let mut seeds = BTreeSet::new();

    for name in names {
        engine.install(name.clone(), seeded.clone()).await?;
        seeds.insert(engine.output(name.clone()).await?);
        engine.bounce(name.clone()).await?;
        seeds.insert(engine.output(name).await?);
    }

    assert_eq!(seeds.len(), 4, "{seeds:?}");
    Ok(clean_kill(engine).await?)
}
