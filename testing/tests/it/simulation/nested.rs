//! Simulations of nested engines, with their imports and exports.

use crankcase_engine::{Change, Engine, Manifold, Name, Nested};
use crankcase_testing::{Broken, Mode, Setup, Simulation};

use super::{BASE, LIMIT, PAGE, TOP, add_one, base, following};

const TENANT: Name<Engine> = Name::new("tenant");
const INNER: Name<u32> = Name::new("inner");
const OUT: Name<u32> = Name::new("out");

/// Returns a nested engine that takes two numbers from outside and hands one out.
fn tenant() -> Nested {
    let contents = || Change::new().install(INNER, add_one(LIMIT)).install(PAGE, both(INNER, BASE));
    Nested::new(contents).import(LIMIT, LIMIT).require(BASE, BASE).export(PAGE, OUT)
}

/// Returns a manifold that does without its second input.
fn both(first: Name<u32>, second: Name<u32>) -> Manifold {
    Manifold::builder().inputs((first, second.optional())).offers::<(u32,)>().run(
        |(first, second), up| async move {
            up.ready((first % 1_000 + second.unwrap_or(0) % 1_000,)).wait().await;
            Ok(())
        },
    )
}

/// Installs a nested engine among workers outside that it uses, and that use it.
fn set_up(setup: &mut Setup) {
    setup.input(LIMIT, vec![1, 2, 3]);
    setup.install(BASE, base());
    setup.install_nested(TENANT, tenant);
    setup.install(TOP, add_one(OUT));
    setup.install(Name::<u32>::new("follower"), following(OUT, setup.notes(), 0));
    setup.invariant("who is in the tenant lives while the tenant does", |view| {
        let lives = |path| view.is_live(path);
        lives("/tenant") || !["/tenant/inner", "/tenant/page"].into_iter().any(lives)
    });
    setup.recovered("the top is up", |view| view.is_up("/top") && view.is_up("/tenant/page"));
}

#[test]
fn the_engine_keeps_its_promises_among_nested_engines() -> Result<(), Broken> {
    let tally = Simulation::new(set_up).safety(0..60)?;

    assert!(tally.starts > 4_000 && tally.faults > 4_000, "{tally:?}");
    Ok(())
}

#[test]
fn nested_engines_recover_when_the_faults_stop() -> Result<(), Broken> {
    let tally = Simulation::new(set_up).liveness(0..60)?;

    assert!(tally.starts > 4_000 && tally.faults > 4_000, "{tally:?}");
    Ok(())
}

#[test]
fn a_nested_engine_replays() -> Result<(), Broken> {
    let simulation = Simulation::new(set_up);
    for seed in 0..10 {
        let first = simulation.run(seed, Mode::Liveness)?;

        assert_eq!(first, simulation.run(seed, Mode::Liveness)?);
    }
    Ok(())
}
