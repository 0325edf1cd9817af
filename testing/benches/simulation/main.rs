//! The simulator's speed, as a ratio to the bare machine's in the same run.
//!
//! `cargo bench -p crankcase-testing` runs it. Both drive the same twenty manifolds, five layers of
//! four with two inputs each, whose workers fail at random and are started again. What is counted is
//! the same on both sides: workers that come up, workers that end, and waits that are over.
//!
//! The bare machine is the engine's pure state machine, which is told its events by a plain loop: it
//! has no tasks, timers, channels, values or faults, and nobody judges it. The simulator has all of
//! them, and its trace. They alternate for five rounds on one thread; medians are compared.

#![expect(clippy::print_stdout, reason = "a benchmark prints its figures")]
#![expect(clippy::unwrap_used, reason = "a benchmark that fails may panic")]

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crankcase_engine::{Engine, Manifold, Name, drive_bare_machine};
use crankcase_testing::{Faults, Mode, Simulation};
use parking_lot::Mutex;
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use tokio::runtime::Builder;
use tokio::time::Instant;

/// How many manifolds there are.
const COUNT: usize = 20;
const ROUNDS: u64 = 5;
/// How many events the bare machine is told in a round.
const EVENTS: u64 = 2_000_000;
/// How long the simulator's run lasts by the paused clock: some hundred thousand events.
const LASTS: Duration = Duration::from_secs(10 * 24 * 3600);

fn main() {
    println!("| measure | bare machine | measured | ratio (lowest to highest) | at least | |");
    println!("| --- | --- | --- | --- | --- | --- |");
    let all = Faults::default();
    compare("simulator, 20 manifolds, all faults", |seed| simulated(&all, seed));
    // Those that no event comes of, or much idle time, are left out.
    let failures = Faults::none()
        .run_error(1.0)
        .within(Duration::from_secs(60))
        .jumps_every(Duration::ZERO)
        .yields(0);
    compare("simulator, 20 manifolds, failures only", |seed| simulated(&failures, seed));
    compare("engine without the simulator, workers that fail", driven);
}

/// Prints events a second, and how many of the bare machine's they are.
fn compare(name: &str, rate: impl Fn(u64) -> f64) {
    let rounds: Vec<(f64, f64)> = (0..ROUNDS).map(|seed| (bare(seed), rate(seed))).collect();
    let ratios = sorted(rounds.iter().map(|(bare, measured)| measured / bare));
    let middle = ratios.len() / 2;
    let (bare, measured) = (
        sorted(rounds.iter().map(|round| round.0))[middle],
        sorted(rounds.iter().map(|round| round.1))[middle],
    );
    let verdict = if ratios[middle] >= 0.1 { "met" } else { "MISSED" };
    println!(
        "| {name} | {:.2} M | {:.2} M | {:.3} ({:.3} to {:.3}) | 0.1 | {verdict} |",
        bare / 1e6,
        measured / 1e6,
        ratios[middle],
        ratios[0],
        ratios[ratios.len() - 1],
    );
}

fn sorted(values: impl Iterator<Item = f64>) -> Vec<f64> {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values
}

/// Returns the inputs of a manifold, by number.
fn inputs(index: usize) -> Vec<usize> {
    match index.checked_sub(4) {
        // The last of a layer has one.
        Some(above) if index % 4 == 3 => vec![above],
        Some(above) => vec![above, above + 1],
        None => Vec::new(),
    }
}

/// Returns how many events a second the bare machine takes.
fn bare(seed: u64) -> f64 {
    let inputs: Vec<_> = (0..COUNT).map(inputs).collect();
    let began = Instant::now();
    drive_bare_machine(&inputs, EVENTS, seed);
    EVENTS as f64 / began.elapsed().as_secs_f64()
}

/// Returns how many events a second an engine drives under a paused clock that nobody simulates: its
/// workers fail by themselves.
fn driven(seed: u64) -> f64 {
    let runtime = Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
    let began = Instant::now();
    let random = Arc::new(Mutex::new(SmallRng::seed_from_u64(seed)));
    let (starts, failures) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
    runtime.block_on(async {
        let engine = Engine::builder().seed(seed).build().unwrap();
        let name = |index: usize| Name::<u32>::parse(&format!("worker-{index}")).unwrap();
        for index in 0..COUNT {
            let inputs: Vec<_> = inputs(index).into_iter().map(name).collect();
            let counts = (Arc::clone(&random), Arc::clone(&starts), Arc::clone(&failures));
            let builder = Manifold::builder().inputs(inputs).offers::<(u32,)>();
            let manifold =
                builder.run_with(counts, |(random, starts, failures), _, up| async move {
                    let stop = up.ready((1,));
                    starts.fetch_add(1, Ordering::Relaxed);
                    let lives = Duration::from_millis(random.lock().random_range(0..60_000));
                    tokio::select! {
                        biased;
                        () = stop.wait() => return Ok(()),
                        () = tokio::time::sleep(lives) => {}
                    }
                    failures.fetch_add(1, Ordering::Relaxed);
                    Err("it failed".into())
                });
            engine.install(name(index), manifold).await.unwrap();
        }
        tokio::time::sleep(LASTS).await;
        engine.stop().await.unwrap();
    });
    // Each that came up has ended, and each failure has its wait.
    let events = 2 * starts.load(Ordering::Relaxed) + failures.load(Ordering::Relaxed);
    events as f64 / began.elapsed().as_secs_f64()
}

/// Returns how many events a second the simulator drives.
fn simulated(faults: &Faults, seed: u64) -> f64 {
    let simulation = Simulation::new(|setup| {
        let name = |index: usize| Name::<u32>::parse(&format!("worker-{index}")).unwrap();
        for index in 0..COUNT {
            let inputs: Vec<_> = inputs(index).into_iter().map(name).collect();
            let manifold =
                Manifold::builder().inputs(inputs).offers::<(u32,)>().run(|_, up| async move {
                    up.ready((1,)).wait().await;
                    Ok(())
                });
            setup.install(name(index), manifold);
        }
    });
    let simulation = simulation.faults(faults.clone()).lasts(LASTS);
    let began = Instant::now();
    let tally = simulation.run(seed, Mode::Safety).unwrap().tally();
    (tally.starts + tally.ends + tally.waits) as f64 / began.elapsed().as_secs_f64()
}
