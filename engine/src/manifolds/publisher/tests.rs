//! Rule S19 in random engines: no follower reads an older value than one that was acknowledged.
//!
//! `CRANKCASE_PUBLISH_SEEDS` is how many engines each test tries. `CRANKCASE_SEED` tries a single
//! one.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use slab::Slab;
use tokio::sync::Notify;
use tokio::task::yield_now;
use tokio::time::timeout;

use super::Publisher;
use crate::input::LiveInput;
use crate::{Applied, BoxError, Change, Changing, Engine, Live, Manifold, Name, Policy};

type TestResult<T = ()> = Result<T, BoxError>;

const STATE: Name<u64> = Name::new("state");
const READER: Name<()> = Name::new("reader");
const PART_READER: Name<()> = Name::new("part-reader");
const HOLDER: Name<()> = Name::new("holder");

/// A selected part is the value divided by this.
const PART: u64 = 3;
/// How often each engine publishes a value.
const VALUES: u64 = 30;
/// How many engines each test tries.
const ENGINES: u64 = 150;
/// How many turns the worker that requires the value takes to stop.
const TURNS_TO_STOP: usize = 5;
/// After how long it is said that a publish hangs; the test waits for values, and not for this.
const HANGS: Duration = Duration::from_secs(60);

/// The live values of all readers that are up, and the last value that was acknowledged.
#[derive(Default)]
struct Readers {
    acknowledged: AtomicU64,
    /// Each with what its values were divided by.
    inputs: Mutex<Slab<(Live<u64>, u64)>>,
}

impl Readers {
    /// Fails if a reader reads an older value than the last one that was acknowledged.
    fn check(&self, seed: u64) -> TestResult {
        let acknowledged = self.acknowledged.load(Ordering::SeqCst);
        for (_, (input, divisor)) in self.inputs.lock().iter() {
            if let Some(value) = input.get().filter(|value| *value < acknowledged / divisor) {
                let text = "a follower reads an older value than the acknowledged one";
                let values = format!("{value}, not {acknowledged} / {divisor}");
                return Err(format!("S19: {text}: {values}, seed {seed}").into());
            }
        }
        Ok(())
    }
}

/// A reader that is up.
struct Reading {
    readers: Arc<Readers>,
    key: usize,
}

impl Drop for Reading {
    fn drop(&mut self) {
        drop(self.readers.inputs.lock().remove(self.key));
    }
}

fn reader(input: LiveInput<u64>, readers: &Arc<Readers>, divisor: u64) -> Manifold {
    let readers = Arc::clone(readers);
    Manifold::builder().inputs(input).run_with(readers, move |readers, input, up| async move {
        let key = readers.inputs.lock().insert((input, divisor));
        let _reading = Reading { readers, key };
        up.ready(()).wait().await;
        Ok(())
    })
}

/// Returns a worker that requires the value and stops slowly. Meanwhile a source that is to stop
/// goes on, and publishes.
fn holder() -> Manifold {
    Manifold::builder().inputs(STATE).run(|_, up| async move {
        up.ready(()).wait().await;
        for _ in 0..TURNS_TO_STOP {
            yield_now().await;
        }
        Ok(())
    })
}

fn source(publisher: &Arc<Publisher<u64>>) -> Manifold {
    let builder = Manifold::builder().offers::<(Changing<u64>,)>();
    builder.run_with(Arc::clone(publisher), |publisher, (), up| async move {
        up.ready((publisher.changing(),)).wait().await;
        Ok(())
    })
}

/// Bounces, parks or replaces a worker now and then. Returns the calls, which have begun.
fn disturb(
    engine: &Engine,
    random: &mut SmallRng,
    publisher: &Arc<Publisher<u64>>,
) -> Vec<Applied> {
    if random.random_bool(0.6) {
        return Vec::new();
    }
    match random.random_range(0..5) {
        0 => vec![engine.bounce(READER)],
        1 => vec![engine.bounce(PART_READER)],
        2 => vec![engine.bounce(STATE)],
        3 => vec![engine.replace(STATE, source(publisher))],
        _ => vec![engine.park(STATE), engine.unpark(STATE)],
    }
}

/// Publishes values in a random engine, and returns how many were acknowledged.
async fn publish_in_an_engine(seed: u64) -> TestResult<u64> {
    let mut random = SmallRng::seed_from_u64(seed);
    let (publisher, readers) = (Arc::new(Publisher::new(0)), Arc::new(Readers::default()));
    let policy = Policy::default().bounce_delay(Duration::ZERO);
    let engine = Engine::builder().policy(policy).seed(seed).build()?;
    let part = STATE.select(|value| value / PART).live();
    let change = Change::new()
        .install(STATE, source(&publisher))
        .install(READER, reader(STATE.live(), &readers, 1))
        .install(PART_READER, reader(part, &readers, PART))
        .install(HOLDER, holder());
    engine.apply(change).await?;
    let outside = engine.output(STATE).follow().await?;
    readers.inputs.lock().insert((outside, 1));
    let (mut value, mut count, mut calls) = (0, 0, Vec::<Applied>::new());
    for _ in 0..VALUES {
        let is_calm = random.random_bool(0.3);
        if is_calm {
            for call in calls.drain(..) {
                call.await?;
            }
            engine.settled().await?;
        } else {
            calls.extend(disturb(&engine, &mut random, &publisher));
            for _ in 0..random.random_range(0..12) {
                yield_now().await;
                readers.check(seed)?;
            }
            calls.extend(disturb(&engine, &mut random, &publisher));
        }
        // Sometimes the same value again.
        value += u64::from(random.random_bool(0.8));
        let published = publisher.publish(value);
        if !is_calm {
            calls.extend(disturb(&engine, &mut random, &publisher));
        }
        if random.random_bool(0.2) {
            drop(published);
            continue;
        }
        let hangs = |_| format!("S19: the publish of {value} hangs, seed {seed}");
        if timeout(HANGS, published).await.map_err(hangs)?.is_ok() {
            readers.acknowledged.store(value, Ordering::SeqCst);
            count += 1;
        } else if is_calm {
            let text = "nothing disturbs it, and it is not acknowledged";
            return Err(format!("S19: the publish of {value}: {text}, seed {seed}").into());
        }
        readers.check(seed)?;
    }
    engine.stop().await?;
    Ok(count)
}

async fn publish_in_engines() -> TestResult {
    let number = |name| std::env::var(name).ok().map(|text| text.parse::<u64>()).transpose();
    if let Some(seed) = number("CRANKCASE_SEED")? {
        return publish_in_an_engine(seed).await.map(drop);
    }
    let (engines, mut count) = (number("CRANKCASE_PUBLISH_SEEDS")?.unwrap_or(ENGINES), 0);
    for seed in 0..engines {
        count += publish_in_an_engine(seed).await?;
    }
    assert!(count > engines * VALUES / 4, "only {count} values were acknowledged");
    Ok(())
}

// In a task of its own, which gets its turn soon after a publish is acknowledged.
#[tokio::test(start_paused = true)]
#[expect(clippy::disallowed_methods, reason = "the test waits for the task's end")]
async fn s19_no_follower_reads_an_older_value_than_an_acknowledged_one() -> TestResult {
    tokio::spawn(publish_in_engines()).await?
}

#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
#[expect(clippy::disallowed_methods, reason = "the test waits for the task's end")]
async fn s19_no_follower_on_other_threads_reads_an_older_value_than_an_acknowledged_one()
-> TestResult {
    tokio::spawn(publish_in_engines()).await?
}

#[tokio::test(start_paused = true)]
async fn s19_a_publish_before_its_output_is_handed_over_is_acknowledged() -> TestResult {
    let (engine, acknowledged) = (Engine::builder().build()?, Arc::new(Notify::new()));
    let builder = Manifold::builder().offers::<(Changing<u64>,)>();
    let early = builder.run_with(Arc::clone(&acknowledged), |acknowledged, (), up| async move {
        let publisher = Publisher::new(1);
        let output = publisher.changing();
        let published = publisher.publish(2);
        let stop = up.ready((output,));
        published.await?;
        acknowledged.notify_one();
        stop.wait().await;
        Ok(())
    });
    engine.install(STATE, early).await?;

    let hangs = |_| "S19: a publish before its output is handed over hangs";
    timeout(HANGS, acknowledged.notified()).await.map_err(hangs)?;

    engine.stop().await?;
    Ok(())
}
