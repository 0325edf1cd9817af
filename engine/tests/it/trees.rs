//! Random trees of engines under random schedules: the promises hold across their borders.
//!
//! `CRANKCASE_TREE_SEEDS` is how many seeds are tried (default 150), and `CRANKCASE_TREE_SEED` one
//! to try alone; a failure names its seed.

mod world;

use std::time::Duration;

use crankcase_engine::{Change, Engine, EngineError, Name, Nested, WorkerState};
use crankcase_testing::test_engine;
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use tokio::time::{Instant, sleep, timeout};

use crate::TestResult;
use world::{Token, World};

/// One worker of the tree.
struct Place {
    /// The path of its engine.
    engine: &'static str,
    name: &'static str,
    path: &'static str,
    /// The names that it uses, each with the path of the worker behind it.
    uses: &'static [(&'static str, &'static str)],
}

const fn place(
    engine: &'static str,
    name: &'static str,
    path: &'static str,
    uses: &'static [(&'static str, &'static str)],
) -> Place {
    Place { engine, name, path, uses }
}

const PLACES: &[Place] = &[
    place("", "base", "/base", &[]),
    place("", "mid", "/mid", &[("base", "/base")]),
    place("", "top", "/top", &[("page", "/site/page"), ("mid", "/mid")]),
    place("/site", "index", "/site/index", &[("base", "/base")]),
    place("/site", "page", "/site/page", &[("index", "/site/index"), ("mid", "/mid")]),
    place("/site/cell", "leaf", "/site/cell/leaf", &[("index", "/site/index"), ("mid", "/mid")]),
    place("/site", "sum", "/site/sum", &[("leaf", "/site/cell/leaf"), ("page", "/site/page")]),
    place("/hall", "guest", "/hall/guest", &[("page", "/site/page"), ("base", "/base")]),
];

/// Returns the workers of one engine as a change.
fn contents(world: &World, engine: &str) -> Change {
    let mut change = Change::new();
    for place in PLACES.iter().filter(|place| place.engine == engine) {
        let inputs: Vec<_> = place.uses.iter().map(|(name, _)| *name).collect();
        change = change.install(token(place.name), world.manifold(place.path, &inputs));
    }
    change
}

fn token(name: &'static str) -> Name<Token> {
    Name::new(name)
}

/// Returns an import of one of both kinds.
fn import(nested: Nested, name: &'static str, random: &mut SmallRng) -> Nested {
    if random.random() {
        nested.require(token(name), token(name))
    } else {
        nested.import(token(name), token(name))
    }
}

/// Returns the engine `/site/cell`.
fn cell(world: &World, random: &mut SmallRng) -> Nested {
    let world = world.clone();
    let cell = Nested::new(move || contents(&world, "/site/cell"));
    let cell = import(import(cell, "index", random), "mid", random);
    cell.engine(|_| test_engine()).export(token("leaf"), token("leaf"))
}

/// Returns the engine `/site`, which holds `/site/cell`.
fn site(world: &World, random: &mut SmallRng) -> Nested {
    let (world, seed) = (world.clone(), random.random());
    let site = Nested::new(move || {
        let mut random = SmallRng::seed_from_u64(seed);
        contents(&world, "/site").install_nested(CELL, cell(&world, &mut random))
    });
    let site = import(import(site, "base", random), "mid", random);
    site.engine(|_| test_engine()).export(token("page"), token("page"))
}

/// Returns the engine `/hall`, which stands beside `/site`.
fn hall(world: &World, random: &mut SmallRng) -> Nested {
    let world = world.clone();
    let hall = Nested::new(move || contents(&world, "/hall"));
    import(import(hall, "page", random), "base", random).engine(|_| test_engine())
}

/// Returns the tree as one change.
fn tree(world: &World, random: &mut SmallRng) -> Change {
    let change = contents(world, "").install_nested(SITE, site(world, random));
    change.install_nested(HALL, hall(world, random))
}

const SITE: Name<Engine> = Name::new("site");
const HALL: Name<Engine> = Name::new("hall");
const CELL: Name<Engine> = Name::new("cell");

/// The nested engines, each with the path of the one around it.
const ENGINES: [(&str, &str); 3] = [("", "site"), ("", "hall"), ("/site", "cell")];

/// Does something to a worker, or to a nested engine as a worker.
async fn disturb(engine: &Engine, world: &World, random: &mut SmallRng) {
    let Place { engine: place, name, path, .. } = PLACES[random.random_range(0..PLACES.len())];
    let (outer, nested) = ENGINES[random.random_range(0..ENGINES.len())];
    let (place, name) = if random.random_range(0..8) < 3 { (outer, nested) } else { (place, name) };
    let Some(around) = engine.engine_at(place) else { return };
    let name = Name::<()>::new(name);
    // Calls to what is not there now, or to an engine that is ending, are refused.
    let call = match random.random_range(0..20) {
        0..4 => return world.strike(path),
        4..8 => {
            drop(around.park(name.clone()));
            around.unpark(name.clone())
        }
        8 => {
            if let Some(nested) = engine.engine_at(&format!("{outer}/{nested}")) {
                nested.kill();
            }
            return;
        }
        9..12 => {
            let Some(around) = engine.engine_at(outer) else { return };
            around.apply(match nested {
                "site" => Change::new().replace_nested(SITE, site(world, random)),
                "hall" => Change::new().replace_nested(HALL, hall(world, random)),
                _ => Change::new().replace_nested(CELL, cell(world, random)),
            })
        }
        _ => around.bounce(name.clone()),
    };
    if random.random() {
        // Who is stuck may be waited for.
        drop(timeout(Duration::from_secs(random.random_range(0..10)), call).await);
    }
}

/// Returns what a worker is doing, as its engine has it.
async fn state(engine: &Engine, name: &str) -> Option<WorkerState> {
    let graph = engine.graph().await?;
    graph.nodes.into_iter().find(|node| node.name == *name).map(|node| node.state)
}

/// Waits until all that was begun is over: who is stuck, and backoffs.
async fn rest(engine: &Engine, world: &World) -> TestResult {
    for (place, name) in ENGINES {
        world.release(Instant::now() + Duration::from_secs(3600));
        sleep(Duration::from_secs(3600)).await;
        // One that was killed is done, and is not wanted again before something changes.
        let around = engine.engine_at(place).ok_or(format!("{place} is gone"))?;
        if state(&around, name).await == Some(WorkerState::Done) {
            around.bounce(Name::<()>::new(name)).await?;
        }
    }
    world.release(Instant::now() + Duration::from_secs(3600));
    sleep(Duration::from_secs(3600)).await;
    Ok(())
}

/// Checks that everybody runs, with everybody's present workers.
async fn check_rest(engine: &Engine, world: &World) -> TestResult {
    for Place { engine: place, name, path, .. } in PLACES {
        let nested = engine.engine_at(place).ok_or(format!("{place} is gone"))?;
        let state = state(&nested, name).await;
        if state != Some(WorkerState::Running) {
            let why = nested.why(name).await.map(|why| why.to_string());
            return Err(format!("{path} is {state:?}: {why:?}\n{}", engine.report().await).into());
        }
        let users = PLACES.iter().flat_map(|place| place.uses).filter(|used| used.1 == *path);
        let held = world.users_of(path);
        if held != users.count() {
            world.break_promise(format!("{path} has {held} users"));
        }
    }
    Ok(())
}

async fn run(seed: u64) -> TestResult {
    let mut random = SmallRng::seed_from_u64(seed);
    let (engine, world) = (test_engine().seed(seed).build()?, World::new(seed));
    engine.apply(tree(&world, &mut random)).await?;
    // Half of the trees are killed at rest, the others at any moment.
    let is_calmed = random.random();
    let count = if is_calmed { 40 } else { random.random_range(0..40) };
    for _ in 0..count {
        disturb(&engine, &world, &mut random).await;
        let pause = if random.random_range(0..8) == 0 { 4_000 } else { 30 };
        sleep(Duration::from_millis(random.random_range(0..pause))).await;
        world.release(Instant::now());
    }
    if is_calmed {
        rest(&engine, &world).await?;
        check_rest(&engine, &world).await?;
    }
    let ended = timeout(Duration::from_secs(3600), engine.stop()).await;
    let left_behind = match ended.map_err(|_| "the engine does not end")? {
        Err(EngineError::LeftBehind { workers, .. }) => workers,
        ended => ended.map(|()| Vec::new())?,
    };
    world.check_left_behind(&left_behind);
    world.check_all_ended();
    let broken = world.broken();
    if broken.is_empty() { Ok(()) } else { Err(broken.join("\n").into()) }
}

fn variable(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

#[tokio::test(start_paused = true)]
async fn the_promises_hold_in_random_trees() -> TestResult {
    let seeds = match variable("CRANKCASE_TREE_SEED") {
        Some(seed) => seed..seed + 1,
        None => 0..variable("CRANKCASE_TREE_SEEDS").unwrap_or(150),
    };
    for seed in seeds {
        run(seed).await.map_err(|error| format!("CRANKCASE_TREE_SEED={seed}: {error}"))?;
    }
    Ok(())
}
