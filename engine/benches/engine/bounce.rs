//! Restarts and waves, against respawning one bare task.

use std::sync::Arc;
use std::time::Duration;

use crankcase_engine::{Change, Engine, Name, Policy};
use tokio::sync::Notify;
use tokio::time::Instant;

use crate::floor::respawn;
use crate::runtime::in_task;
use crate::table::Table;
use crate::worker::{Count, bouncing, engine, idle, names, user};

const OTHERS: usize = 10_000;

pub(crate) fn measure(table: &Table) {
    let floor = || respawn(OTHERS);
    table.compare("restart of one among 10000", 6.0, floor, restart_one);
    for count in [1_000, 10_000] {
        let name = format!("bounce a chain of {count} from its root, per link");
        table.compare(&name, 4.0, floor, || async move {
            chain(count, Duration::ZERO).await / count as u32
        });
    }
    table.compare("bounce a fan of 10000, per dependent", 3.0, floor, || async {
        fan(10_000).await / 10_000
    });
    one_delay(table);
    layers(table);
}

/// Returns the time of one restart of a worker that asks for it.
async fn restart_one() -> Duration {
    const TIMES: u32 = 20_000;
    let (engine, _events) = engine();
    let others = Count::new(OTHERS);
    let change =
        names(OTHERS).into_iter().fold(Change::new(), |all, name| all.install(name, idle(&others)));
    engine.apply(change).await.unwrap();
    others.reached().await;
    let (again, started) = (Arc::new(Notify::new()), Count::new(1));
    engine.install(Name::<usize>::new("one"), bouncing(&again, &started)).await.unwrap();
    started.reached().await;
    let began = Instant::now();
    for _ in 0..TIMES {
        started.reset(1);
        again.notify_one();
        started.reached().await;
    }
    let taken = began.elapsed();
    engine.stop().await.unwrap();
    taken / TIMES
}

/// Bounces the root once to warm up and then a few times; returns the time of one wave.
async fn wave(engine: &Engine, root: &Arc<Notify>, started: &Count, count: usize) -> Duration {
    const TIMES: u32 = 5;
    engine.settled().await.unwrap();
    let mut began = Instant::now();
    for time in 0..=TIMES {
        if time == 1 {
            began = Instant::now();
        }
        started.reset(count);
        root.notify_one();
        started.reached().await;
    }
    began.elapsed() / TIMES
}

async fn chain(count: usize, delay: Duration) -> Duration {
    let engine = Engine::builder().policy(Policy::default().bounce_delay(delay)).build().unwrap();
    let _events = engine.events();
    let (names, root, started) = (names(count), Arc::new(Notify::new()), Count::new(count));
    let mut change = Change::new().install(names[0].clone(), bouncing(&root, &started));
    for index in 1..count {
        let manifold = user(vec![names[index - 1].clone()], &started);
        change = change.install(names[index].clone(), manifold);
    }
    engine.apply(change).await.unwrap();
    started.reached().await;
    let taken = wave(&engine, &root, &started, count).await;
    engine.stop().await.unwrap();
    taken
}

async fn fan(count: usize) -> Duration {
    let (engine, _events) = engine();
    let (root, started) = (Arc::new(Notify::new()), Count::new(count + 1));
    const ROOT: Name<usize> = Name::new("root");
    let first = Change::new().install(ROOT, bouncing(&root, &started));
    let change = names(count)
        .into_iter()
        .fold(first, |all, name| all.install(name, user(vec![ROOT], &started)));
    engine.apply(change).await.unwrap();
    started.reached().await;
    let taken = wave(&engine, &root, &started, count + 1).await;
    engine.stop().await.unwrap();
    taken
}

/// A chain waits for one bounce delay in all, whatever its length.
fn one_delay(table: &Table) {
    let name = "bounce a chain of 1000 with a delay of 100 ms";
    if table.wants(name) {
        let taken = in_task(chain(1_000, Duration::from_millis(100)));
        // The jitter is 20 %.
        let figure = format!("{taken:.0?}");
        table.figure(name, &figure, "one delay (80 to 130 ms)", taken < Duration::from_millis(130));
    }
}

/// Ten layers of a hundred with three inputs each: a wave starts each worker once.
fn layers(table: &Table) {
    let name = "starts of 10 layers of 100 with 3 inputs, root layer bounced";
    if !table.wants(name) {
        return;
    }
    const ROUNDS: usize = 200;
    let (starts, taken) = in_task(async {
        let (engine, _events) = engine();
        let (names, started) = (names(1_000), Count::new(1_000));
        engine.apply(layered(&names, 100, &started)).await.unwrap();
        started.reached().await;
        let mut starts = 0;
        let began = Instant::now();
        for _ in 0..ROUNDS {
            started.reset(1_000);
            let bounce = names[..100].iter().cloned().fold(Change::new(), Change::bounce);
            engine.apply(bounce).await.unwrap();
            // A worker is up before it counts.
            started.reached().await;
            engine.settled().await.unwrap();
            starts += started.get();
        }
        let taken = began.elapsed();
        engine.stop().await.unwrap();
        (starts, taken / ROUNDS as u32)
    });
    let figure = format!("{starts} starts in {ROUNDS} waves, {taken:.1?} each");
    table.figure(name, &figure, "1000 a wave", starts == 1_000 * ROUNDS);
}

/// Installs layers of a width, each worker with three inputs from the layer before.
pub(crate) fn layered(names: &[Name<usize>], width: usize, started: &Count) -> Change {
    names.iter().enumerate().fold(Change::new(), |all, (index, name)| {
        let (layer, column) = (index / width, index % width);
        let inputs = (0..if layer == 0 { 0 } else { 3 })
            .map(|input| names[(layer - 1) * width + (column + input * 33) % width].clone())
            .collect();
        all.install(name.clone(), user(inputs, started))
    })
}
