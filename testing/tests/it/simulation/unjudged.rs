//! That no simulation passes that judges nothing.

use crankcase_engine::{Manifold, Name};
use crankcase_testing::{Broken, Setup, Simulation};

use super::{BASE, LIMIT, SITE, TOP, add_one, base};
use crate::TestResult;

/// Returns what both kinds of runs say.
fn said_of(build: fn(&mut Setup)) -> [Option<String>; 2] {
    let what = |broken: Broken| broken.what().to_owned();
    [
        Simulation::new(build).safety(0..10).err().map(what),
        Simulation::new(build).liveness(0..10).err().map(what),
    ]
}

#[test]
fn no_seeds_are_refused() -> TestResult {
    let simulation = Simulation::new(|setup| setup.install(BASE, base()));
    for seeds in [0..0, 20..20, std::ops::Range { start: 20, end: 0 }] {
        let broken = simulation.safety(seeds).err().ok_or("it ran")?;

        assert!(broken.what().starts_with("there are no seeds in "), "{broken}");
        assert!(!broken.to_string().contains("replay it"), "{broken}");
    }
    Ok(())
}

#[test]
fn who_never_comes_up_is_named_with_the_reason() {
    // The name of the input is misspelt.
    let said = said_of(|setup| {
        setup.input(Name::new("limt"), vec![1, 2]);
        setup.install(BASE, add_one(LIMIT));
        setup.install(TOP, add_one(BASE));
    });

    let expected = "\"/base\" has not come up in any run, so nothing of it was judged; if that is \
                    right, say so with `Setup::may_rest`: /base waits for /limit, which is not \
                    installed; did you mean \"limt\"?";
    assert_eq!(said, [Some(expected.to_owned()), Some(expected.to_owned())]);
}

#[test]
fn who_may_rest_need_not_come_up() -> Result<(), Broken> {
    let simulation = Simulation::new(|setup| {
        setup.install(BASE, base());
        setup.install(TOP, add_one(LIMIT));
        setup.may_rest("/top");
    });

    simulation.safety(0..10)?;
    simulation.liveness(0..10)?;
    Ok(())
}

#[test]
fn who_comes_up_in_some_run_alone_is_judged() -> Result<(), Broken> {
    let simulation = Simulation::new(|setup| {
        setup.install(TOP, add_one(BASE));
        if setup.number(0..3) == 0 {
            setup.install(BASE, base());
        } else {
            setup.install(
                SITE,
                Manifold::builder().run(|(), up| async move {
                    up.ready(()).wait().await;
                    Ok(())
                }),
            );
        }
    });

    simulation.safety(0..20)?;
    Ok(())
}

#[test]
fn a_path_that_is_declared_and_never_installed_is_nobodys() {
    let said = said_of(|setup| {
        setup.install(BASE, base());
        let optional =
            Manifold::builder().inputs((BASE, LIMIT.optional())).run(|_, up| async move {
                up.ready(()).wait().await;
                Ok(())
            });
        setup.install(SITE, optional);
        setup.invariant("the limit is never up", |view| !view.is_up("/limit"));
    });

    let expected = "\"/limit\" was asked for, and nobody has that path in any run";
    assert_eq!(said, [Some(expected.to_owned()), Some(expected.to_owned())]);
}
