//! A simulation of manifolds of one's own: among faults, again and again, each run as its seed says.
//!
//! In a program of yours each of the simulations stands in a plain `#[test]`.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crankcase_engine::{Manifold, Name};
use crankcase_testing::{Broken, Simulation};

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

/// Returns a simulation of a web on such a store. All is made anew for every run.
fn simulation(store: fn(Held) -> Manifold) -> Simulation<'static> {
    Simulation::new(move |setup| {
        setup.input(LIMIT, vec![1, 2, 3]);
        setup.install(STORE, store(Held::default()));
        setup.install(WEB, web());
        setup.invariant("the web is up only while the store is", |view| {
            !view.is_up("/web") || view.is_up("/store")
        });
        setup.recovered("the web is up", |view| view.is_up("/web"));
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

    simulation(careful).safety(0..5)?;
    let tally = simulation(careful).liveness(0..5)?;
    println!("careful: recovers from all faults, and there were some: {}", tally.faults > 0);
    Ok(())
}
