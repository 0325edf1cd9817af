//! Whatever happens meanwhile on three threads: in the end all have the newest values.
//!
//! `CRANKCASE_CONVERGENCE_SEEDS` is how many random engines are tried, 60 by default;
//! `CRANKCASE_SEED` tries a single one. What the threads do beside each other no seed decides.

use std::ops::Range;
use std::time::Duration;

use crankcase_engine::{Change, Changing, Engine, Exit, Live, Manifold, Name, Nested};
use crankcase_testing::test_engine;
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use tokio::sync::watch;

use crate::{TestResult, stop_all, with_bounce_delay};

const SOURCES: usize = 2;
const COUNT: usize = 9;
/// What the nested engines call what they import, and what they export.
const IMPORTED: Name<u64> = Name::new("imported");
const EXPORTED: Name<u64> = Name::new("exported");

/// After how long it is said that something hangs; the test waits for values, and not for this.
const HANGS: Duration = Duration::from_secs(20);

/// How a value depends on earlier ones.
#[derive(Debug, Clone)]
enum Shape {
    /// It has the values of these, the second if there is one, and is missing something if the sum
    /// is a multiple of five.
    Fixed(usize, usize),
    /// It follows this one's value, present or not.
    Following(usize),
    /// As `Following`, in a nested engine that imports and exports.
    Nested(usize),
}

struct World {
    shapes: Vec<Shape>,
    sources: Vec<watch::Sender<u64>>,
}

fn name(index: usize) -> Name<u64> {
    Name::parse(&format!("value-{index}")).expect("it is a good name")
}

fn source(values: watch::Receiver<u64>) -> Manifold {
    Manifold::builder().offers::<(Changing<u64>,)>().run_with(values, |values, (), up| async move {
        up.ready((Changing::new(values),)).wait().await;
        Ok(())
    })
}

fn fixed(first: usize, second: usize) -> Manifold {
    let inputs = (name(first), name(second).optional());
    let builder = Manifold::builder().inputs(inputs).offers::<(u64,)>();
    builder.run(|(first, second), up| async move {
        let sum = first + second.unwrap_or(0) + 1;
        if sum % 5 == 0 {
            return Err(Exit::missing("another sum"));
        }
        up.ready((sum,)).wait().await;
        Ok(())
    })
}

fn following(input: Name<u64>) -> Manifold {
    let builder = Manifold::builder().inputs(input.live()).offers::<(Changing<u64>,)>();
    builder.run(|mut input: Live<u64>, up| async move {
        let next = |value: Option<u64>| value.unwrap_or(0) + 1;
        let shown = watch::Sender::new(next(input.get()));
        let stop = up.ready((Changing::new(shown.subscribe()),));
        loop {
            tokio::select! {
                biased;
                () = stop.wait() => return Ok(()),
                value = input.changed() => drop(shown.send_replace(next(value?))),
            }
        }
    })
}

fn nested(input: usize) -> Nested {
    let inside = || Change::new().install(EXPORTED, following(IMPORTED));
    Nested::new(inside).import(name(input), IMPORTED)
}

impl World {
    fn new(random: &mut SmallRng) -> Self {
        let shape = |index: usize, random: &mut SmallRng| match random.random_range(0..4) {
            0 => Shape::Following(random.random_range(0..index)),
            1 => Shape::Nested(random.random_range(0..index)),
            _ => {
                let first = random.random_range(0..index);
                Shape::Fixed(first, (first + random.random_range(1..index)) % index)
            }
        };
        let shapes = (SOURCES..COUNT).map(|index| shape(index, random)).collect();
        let sources = (0..SOURCES).map(|_| watch::Sender::new(0)).collect();
        Self { shapes, sources }
    }

    /// Adds what is to be at one place, for the first time or in the place of what is there.
    fn install(&self, change: Change, index: usize, is_first: bool) -> Change {
        let manifold = match index.checked_sub(SOURCES).map(|place| &self.shapes[place]) {
            None => source(self.sources[index].subscribe()),
            Some(Shape::Fixed(first, second)) => fixed(*first, *second),
            Some(Shape::Following(input)) => following(name(*input)),
            Some(Shape::Nested(input)) => {
                let nested = nested(*input).export(EXPORTED, name(index));
                let site = Name::parse(&format!("site-{index}")).expect("it is a good name");
                return match is_first {
                    true => change.install_nested::<Engine>(site, nested),
                    false => change.replace_nested(site, nested),
                };
            }
        };
        change.install_or_replace(name(index), manifold)
    }

    /// What is to be there once nothing changes any more.
    fn expected(&self) -> Vec<Option<u64>> {
        let mut values: Vec<_> = self.sources.iter().map(|source| Some(*source.borrow())).collect();
        for shape in &self.shapes {
            values.push(match *shape {
                Shape::Fixed(first, second) => values[first]
                    .map(|value| value + values[second].unwrap_or(0) + 1)
                    .filter(|sum| sum % 5 != 0),
                Shape::Following(input) | Shape::Nested(input) => {
                    Some(values[input].unwrap_or(0) + 1)
                }
            });
        }
        values
    }

    fn disturb(&self, random: &mut SmallRng, values: Range<u64>) {
        let source = &self.sources[random.random_range(0..SOURCES)];
        source.send_replace(random.random_range(values));
    }
}

/// Waits until all values are as expected at one moment, and still are at rest.
async fn reached(
    engine: &Engine,
    values: &mut [Live<u64>],
    expected: &[Option<u64>],
) -> TestResult {
    let mut is_at_rest = false;
    loop {
        let mut pairs = values.iter_mut().zip(expected);
        let wrong = pairs.find_map(|(value, expected)| (value.get() != *expected).then_some(value));
        if let Some(wrong) = wrong {
            wrong.changed().await?;
            is_at_rest = false;
        } else if is_at_rest {
            return Ok(());
        } else {
            engine.settled().await?;
            is_at_rest = true;
        }
    }
}

async fn converges(seed: u64) -> TestResult {
    let mut random = SmallRng::seed_from_u64(seed);
    let world = World::new(&mut random);
    let engine = test_engine().policy(with_bounce_delay(Duration::ZERO)).seed(seed).build()?;
    engine.apply((0..COUNT).fold(Change::new(), |all, at| world.install(all, at, true))).await?;
    for _ in 0..random.random_range(0..60) {
        match random.random_range(0..8) {
            0 => drop(engine.bounce(name(random.random_range(0..SOURCES)))),
            1 => {
                let index = random.random_range(0..COUNT);
                drop(engine.apply(world.install(Change::new(), index, false)));
            }
            2 => tokio::task::yield_now().await,
            _ => world.disturb(&mut random, 0..100),
        }
    }

    let mut values = Vec::new();
    for index in 0..COUNT {
        values.push(engine.output(name(index)).follow().await?);
    }
    let expected = world.expected();
    let waited = tokio::time::timeout(HANGS, reached(&engine, &mut values, &expected)).await;
    if waited.is_err() {
        let got: Vec<_> = values.iter().map(Live::get).collect();
        let (shapes, report) = (&world.shapes, engine.report().await);
        let text = format!("seed {seed}: {got:?}, not {expected:?}\n{shapes:?}\n{report}");
        return Err(text.into());
    }
    waited??;
    stop_all(&engine).await?;
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn in_the_end_all_have_the_newest_values() -> TestResult {
    let number = |name| std::env::var(name).ok().map(|text| text.parse::<u64>()).transpose();
    let seeds = match number("CRANKCASE_SEED")? {
        Some(seed) => seed..seed + 1,
        None => 0..number("CRANKCASE_CONVERGENCE_SEEDS")?.unwrap_or(60),
    };
    for seed in seeds {
        converges(seed).await?;
    }
    Ok(())
}
