//! Random trees of engines under random schedules: the promises hold across their borders.
//!
//! `CRANKCASE_TREE_SEEDS` is how many seeds are tried (default 150), and `CRANKCASE_TREE_SEED` one
//! to try alone; a failure names its seed.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use crankcase_engine::{Change, Engine, Exit, Manifold, Name, Nested, WorkerState};
use crankcase_testing::{clean_kill, test_engine};
use parking_lot::Mutex;
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use tokio::sync::Notify;

use crate::TestResult;

/// What every worker offers: itself, as long as it runs.
#[derive(Clone)]
struct Token {
    worker: Arc<Running>,
}

/// One running worker.
struct Running {
    path: &'static str,
    /// Who runs with its token.
    users: AtomicUsize,
    has_ended: AtomicBool,
    /// It ended because it was told to.
    was_stopped: AtomicBool,
}

/// What all workers of a tree share.
#[derive(Clone, Default)]
struct World {
    /// The present worker of each path.
    present: Arc<Mutex<HashMap<&'static str, Token>>>,
    /// What makes a worker end by itself.
    dying: Arc<Mutex<HashMap<&'static str, Arc<Notify>>>>,
    broken: Arc<Mutex<Vec<String>>>,
}

impl World {
    fn death_of(&self, path: &'static str) -> Arc<Notify> {
        Arc::clone(self.dying.lock().entry(path).or_default())
    }

    fn break_promise(&self, what: String) {
        self.broken.lock().push(what);
    }

    /// Returns a manifold whose workers check that who uses them ends before they do.
    fn manifold(&self, path: &'static str, inputs: &[&'static str]) -> Manifold {
        let inputs: Vec<Name<Token>> = inputs.iter().map(|name| Name::new(name)).collect();
        let builder = Manifold::builder().inputs(inputs).offers::<(Token,)>();
        builder.run_with((self.clone(), path), |(world, path), inputs: Vec<Token>, up| async move {
            for Token { worker } in &inputs {
                worker.users.fetch_add(1, Ordering::SeqCst);
                // The engine may not know yet of one that has died.
                if worker.was_stopped.load(Ordering::SeqCst) {
                    world.break_promise(format!("{path} starts with {} that is gone", worker.path));
                }
            }
            let users = AtomicUsize::new(0);
            let worker = Arc::new(Running {
                path,
                users,
                has_ended: AtomicBool::default(),
                was_stopped: AtomicBool::default(),
            });
            let token = Token { worker: Arc::clone(&worker) };
            if let Some(before) = world.present.lock().insert(path, token.clone())
                && !before.worker.has_ended.load(Ordering::SeqCst)
            {
                world.break_promise(format!("{path} runs twice"));
            }
            let death = world.death_of(path);
            let stop = up.ready((token,));
            let outcome = tokio::select! {
                () = stop.wait() => {
                    // Slow, so that who does not wait for it is seen.
                    tokio::time::sleep(Duration::from_millis(7)).await;
                    if worker.users.load(Ordering::SeqCst) > 0 {
                        world.break_promise(format!("{path} was stopped before its users"));
                    }
                    worker.was_stopped.store(true, Ordering::SeqCst);
                    Ok(())
                }
                () = death.notified() => Err(Exit::failed("died")),
            };
            worker.has_ended.store(true, Ordering::SeqCst);
            for Token { worker } in &inputs {
                worker.users.fetch_sub(1, Ordering::SeqCst);
            }
            outcome
        })
    }
}

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
        nested.import(token(name), token(name))
    } else {
        nested.import_live(token(name), token(name))
    }
}

/// Returns the tree as one change: `/site` holds `/site/cell`, and `/hall` stands beside it.
fn tree(world: &World, random: &mut SmallRng) -> Change {
    let inner_seed: u64 = random.random();
    let site = Nested::new({
        let world = world.clone();
        move || {
            let mut random = SmallRng::seed_from_u64(inner_seed);
            let inner = world.clone();
            let cell = Nested::new(move || contents(&inner, "/site/cell"));
            let cell = import(import(cell, "index", &mut random), "mid", &mut random);
            let cell = cell.engine(|_| test_engine()).export(token("leaf"), token("leaf"));
            contents(&world, "/site").install_nested(Name::<Engine>::new("cell"), cell)
        }
    });
    let site = import(import(site, "base", random), "mid", random);
    let site = site.engine(|_| test_engine()).export(token("page"), token("page"));
    let hall = Nested::new({
        let world = world.clone();
        move || contents(&world, "/hall")
    });
    let hall = import(import(hall, "page", random), "base", random);
    contents(world, "")
        .install_nested(Name::<Engine>::new("site"), site)
        .install_nested(Name::<Engine>::new("hall"), hall.engine(|_| test_engine()))
}

/// Does something to a worker, or to a nested engine as a worker.
async fn disturb(engine: &Engine, world: &World, random: &mut SmallRng) {
    let Place { engine: place, name, path, .. } = PLACES[random.random_range(0..PLACES.len())];
    let (place, name) = match random.random_range(0..8) {
        0 => ("", ["site", "hall"][random.random_range(0..2)]),
        1 => ("/site", "cell"),
        _ => (place, name),
    };
    let Some(engine) = engine.engine_at(place) else { return };
    let name = Name::<()>::new(name);
    // Calls to what is not there now, or to an engine that is ending, are refused.
    let calls = match random.random_range(0..5) {
        0 => {
            world.death_of(path).notify_waiters();
            return;
        }
        1 => vec![engine.park(&name), engine.unpark(&name)],
        _ => vec![engine.bounce(&name)],
    };
    if random.random() {
        for call in calls {
            drop(call.await);
        }
    }
}

async fn run(seed: u64) -> TestResult {
    let mut random = SmallRng::seed_from_u64(seed);
    let (engine, world) = (test_engine().seed(seed).build()?, World::default());
    engine.apply(tree(&world, &mut random)).await?;
    for _ in 0..40 {
        disturb(&engine, &world, &mut random).await;
        tokio::time::sleep(Duration::from_millis(random.random_range(0..30))).await;
    }
    // Backoffs and the like are over long before.
    tokio::time::sleep(Duration::from_secs(3600)).await;
    for Place { engine: place, name, path, .. } in PLACES {
        let nested = engine.engine_at(place).ok_or(format!("{place} is gone"))?;
        let state = nested.graph().await.and_then(|graph| {
            graph.nodes.into_iter().find(|node| node.name == *name).map(|node| node.state)
        });
        if state != Some(WorkerState::Running) {
            let why = nested.why(name).await.map(|why| why.to_string());
            return Err(format!("{path} is {state:?}: {why:?}\n{}", engine.report().await).into());
        }
        let users = PLACES.iter().flat_map(|place| place.uses).filter(|used| used.1 == *path);
        let held = world.present.lock()[path].worker.users.load(Ordering::SeqCst);
        if held != users.count() {
            world.break_promise(format!("{path} has {held} users"));
        }
    }
    clean_kill(engine).await?;
    let broken = world.broken.lock();
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
