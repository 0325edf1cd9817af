//! A simulation of manifolds of one's own: among faults, again and again, each run as its seed says.
//!
//! In a program of yours each of the simulations stands in a plain `#[test]`.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crankcase_engine::{Manifold, Name};
use crankcase_testing::{Broken, Setup, Simulation};

const LIMIT: Name<u32> = Name::new("limit");
const STORE: Name<u32> = Name::new("store");
const WEB: Name<()> = Name::new("web");

/// Something outside of the program that one store holds at a time, such as a lock file.
type Held = Arc<AtomicBool>;

/// Gives the lock back when it runs to its end, and forgets that it may not.
fn careless(held: Held) -> Manifold {
    let builder = Manifold::builder().inputs(LIMIT).offers::<(u32,)>();
    builder.run_with(held, |held, limit, up| async move {
        if held.swap(true, Ordering::Relaxed) {
            return Err("the lock is held".into());
        }
        up.ready((limit,)).wait().await;
        held.store(false, Ordering::Relaxed);
        Ok(())
    })
}

struct Lock(Held);

impl Drop for Lock {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Relaxed);
    }
}

/// Gives the lock back whatever happens: what drops a worker drops the lock.
fn careful(held: Held) -> Manifold {
    let builder = Manifold::builder().inputs(LIMIT).offers::<(u32,)>();
    builder.run_with(held, |held, limit, up| async move {
        if held.swap(true, Ordering::Relaxed) {
            return Err("the lock is held".into());
        }
        let _lock = Lock(held);
        up.ready((limit,)).wait().await;
        Ok(())
    })
}

fn web() -> Manifold {
    Manifold::builder().inputs(STORE).run(|_limit, up| async move {
        up.ready(()).wait().await;
        Ok(())
    })
}

/// Sets up a web on such a store, and returns the lock. All is made anew for every run.
fn set_up(setup: &mut Setup, store: fn(Held) -> Manifold) -> Held {
    let held = Held::default();
    setup.input(LIMIT, vec![1, 2, 3]);
    setup.install(STORE, store(Arc::clone(&held)));
    setup.install(WEB, web());
    setup.recovered("the web is up", |view| view.is_up("/web"));
    held
}

/// Returns a simulation that judges what the engine promises.
fn simulation(store: fn(Held) -> Manifold) -> Simulation<'static> {
    Simulation::new(move |setup| {
        set_up(setup, store);
    })
}

/// Returns one that also judges what the store promises.
fn strict(store: fn(Held) -> Manifold) -> Simulation<'static> {
    Simulation::new(move |setup| {
        let held = set_up(setup, store);
        setup.invariant("only a live store holds the lock", move |view| {
            !held.load(Ordering::Relaxed) || view.is_live("/store")
        });
    })
}

#[expect(clippy::print_stdout, reason = "what it prints is what it shows")]
fn main() -> Result<(), Broken> {
    // The engine keeps its promises among faults, whatever the workers are like.
    simulation(careless).safety(0..5)?;
    println!("careless: no promise is broken");

    // But once the faults are over, all should be well again.
    match simulation(careless).liveness(0..5) {
        Ok(_) => println!("careless: recovers"),
        Err(broken) => {
            println!("careless: does not recover");
            println!("  because the lock is held: {}", broken.what().contains("the lock is held"));
            println!("  replays: {}", broken.to_string().contains("replay it with"));
        }
    }

    // An invariant finds it as soon as it happens.
    if let Err(broken) = strict(careless).safety(0..5) {
        println!("careless: {}", broken.what());
    }

    strict(careful).safety(0..5)?;
    let tally = strict(careful).liveness(0..5)?;
    println!("careful: recovers from all faults, and there were some: {}", tally.faults > 0);
    Ok(())
}
