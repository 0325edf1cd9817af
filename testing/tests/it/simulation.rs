//! Simulations: that what they run among faults keeps its promises, and that they replay.
//!
//! A simulation pauses the clock, so no sleep in here takes real time.

mod failures;
mod faults;
mod nested;
mod recovery;
mod unjudged;

use std::cell::Cell;
use std::time::Duration;

use crankcase_engine::{EndKind, Engine, Manifold, Name, Policy};
use crankcase_testing::{Broken, Faults, Mode, Notes, Setup, Simulation};

const LIMIT: Name<u32> = Name::new("limit");
const BASE: Name<u32> = Name::new("base");
const TOP: Name<u32> = Name::new("top");
const SITE: Name<()> = Name::new("site");
const PAGE: Name<u32> = Name::new("page");

/// Returns a manifold that offers a number.
fn base() -> Manifold {
    Manifold::builder().offers::<(u32,)>().run(|(), up| async move {
        up.ready((1,)).wait().await;
        Ok(())
    })
}

/// Returns a manifold that adds one to its input.
fn add_one(input: Name<u32>) -> Manifold {
    Manifold::builder().inputs(input).offers::<(u32,)>().run(|value, up| async move {
        up.ready((value % 1_000 + 1,)).wait().await;
        Ok(())
    })
}

/// Returns a nested engine of two workers, which takes a number from outside.
fn site(seed: u64) -> Manifold {
    Manifold::builder()
        .inputs(BASE)
        .start(move |base, ctx| async move {
            let engine = Engine::builder().seed(seed).build_nested(&ctx)?;
            engine.install(PAGE, add_one(BASE)).await?;
            engine.install(TOP, add_one(PAGE)).await?;
            engine.provide(BASE, base).await?;
            Ok(engine)
        })
        .report(|engine| engine.reporter())
        .build()
        .grace(Duration::from_secs(300))
}

/// Returns a manifold that follows an input and notes what it sees.
fn following(input: Name<u32>, notes: Notes, index: u64) -> Manifold {
    Manifold::builder().inputs(input.live()).offers::<(u32,)>().run_with(
        (notes, index),
        |(notes, index), mut value, up| async move {
            let stop = up.ready((3,));
            loop {
                tokio::select! {
                    biased;
                    () = stop.wait() => return Ok(()),
                    value = value.changed() => notes.note(format!("{index} sees {value:?}")),
                }
            }
        },
    )
}

/// Returns a manifold that is slow to start and to stop, and waits for an input to be there.
fn slow(input: Name<u32>) -> Manifold {
    Manifold::builder().inputs(input.live().required()).offers::<(u32,)>().run(
        |value, up| async move {
            tokio::time::sleep(Duration::from_millis(300)).await;
            let stop = up.ready((value.get(),));
            stop.wait().await;
            tokio::time::sleep(Duration::from_millis(20)).await;
            Ok(())
        },
    )
}

/// Returns a manifold that does without its second input.
fn frugal(first: Name<u32>, second: Name<u32>) -> Manifold {
    Manifold::builder().inputs((first.live(), second.optional())).offers::<(u32,)>().run(
        |(_, value), up| async move {
            up.ready((value.unwrap_or(0),)).wait().await;
            Ok(())
        },
    )
}

/// Installs workers of all kinds, in a graph that the seed decides.
fn varied(setup: &mut Setup) {
    setup.input(LIMIT, vec![1, 2, 3]);
    setup.install(BASE, base());
    let mut names = vec![LIMIT, BASE];
    for index in 0..16 {
        let name = Name::parse(&format!("worker-{index}")).expect("it is a name");
        let count = names.len() as u64;
        let first = setup.number(0..count);
        let other = (first + setup.number(1..count)) % count;
        let name_at = |index| names[usize::try_from(index).expect("it is small")].clone();
        let (first, second) = (name_at(first), name_at(other));
        let manifold = match setup.number(0..5) {
            0 => add_one(first),
            1 => frugal(first, second),
            2 => Manifold::builder().inputs(vec![second.output::<()>()]).offers::<(u32,)>().run(
                |_, up| async move {
                    up.ready((7,)).wait().await;
                    Ok(())
                },
            ),
            3 => following(first, setup.notes(), index),
            _ => slow(first),
        };
        setup.install(name.clone(), manifold);
        names.push(name);
    }
    let seed = setup.seed();
    setup.install(SITE, site(seed));
    // None of them sets anything for itself.
    let paths = names.iter().map(|name| format!("/{}", name.as_str()));
    for path in paths.chain(["/site".to_owned(), "/site/page".to_owned(), "/site/top".to_owned()]) {
        setup.waits(&path, Policy::default());
    }
}

#[test]
fn the_engine_keeps_its_promises_among_faults() -> Result<(), Broken> {
    let tally = Simulation::new(varied).safety(0..100)?;

    assert!(tally.starts > 10_000 && tally.faults > 10_000, "{tally:?}");
    Ok(())
}

#[test]
fn everyone_recovers_when_the_faults_stop() -> Result<(), Broken> {
    let tally = Simulation::new(varied).liveness(0..120)?;

    assert!(tally.starts > 10_000 && tally.faults > 10_000, "{tally:?}");
    Ok(())
}

#[test]
fn the_same_seed_gives_the_same_trace() -> Result<(), Broken> {
    let simulation = Simulation::new(varied);
    for seed in 0..20 {
        let (first, second) =
            (simulation.run(seed, Mode::Liveness)?, simulation.run(seed, Mode::Liveness)?);

        assert_eq!(first.lines(), second.lines());
        assert_eq!(first, second);
    }
    Ok(())
}

#[test]
fn another_seed_gives_another_trace() -> Result<(), Broken> {
    let simulation = Simulation::new(|setup| setup.install(BASE, base()));

    let (first, second) = (simulation.run(1, Mode::Safety)?, simulation.run(2, Mode::Safety)?);

    assert_ne!(first, second);
    Ok(())
}

#[test]
fn every_kind_of_fault_strikes() -> Result<(), Broken> {
    let simulation = Simulation::new(varied);
    let mut lines = Vec::new();
    for seed in 0..10 {
        lines.extend(simulation.run(seed, Mode::Safety)?.lines());
    }

    for fault in [
        "fails in its start",
        "panics in its start",
        "hangs in its start",
        "is slow to start",
        "fails",
        "panics",
        "asks for a bounce",
        "hangs",
        "is slow to stop",
        "ignores its stop",
        "fails at its stop",
        "is bounced by hand",
        "is parked",
        "is unparked",
        "is rewired",
        "is changed by a group",
        "is taken out",
        "is put back",
        "gets another value",
        "the clock jumps",
        "! /site/page",
    ] {
        let has_struck = |line: &&String| line.contains("! ") && line.contains(fault);
        assert!(lines.iter().any(|line| has_struck(&line)), "{fault}");
    }
    Ok(())
}

#[test]
fn a_trace_says_which_input_a_manifold_was_given_and_who_holds_up_a_stop() -> Result<(), Broken> {
    let simulation = Simulation::new(|setup| {
        setup.install(BASE, base());
        setup.install(TOP, add_one(BASE));
        setup.install(PAGE, slow(TOP));
    });
    let mut lines = Vec::new();
    for seed in 0..60 {
        lines.extend(simulation.run(seed, Mode::Safety)?.lines());
    }

    for said in [
        " s  ! /top is rewired, with /base as an optional input",
        " s  ! /page is rewired, with /base as a live input",
        " s  ! /page is rewired, with /top as a required input",
        " s  ! /top is put back",
        " s  /base closing, used by /top",
    ] {
        assert!(lines.iter().any(|line| line.ends_with(said)), "{said}");
    }
    Ok(())
}

#[test]
fn who_is_spared_is_struck_by_nothing() -> Result<(), Broken> {
    let simulation = Simulation::new(|setup| {
        setup.install(BASE, base());
        setup.spare("/base");
        setup.invariant("base never fails", |view| view.last_end("/base") != Some(EndKind::Failed));
    });

    let tally = simulation.safety(0..20)?;

    // Calls by hand strike it all the same.
    assert!(tally.starts > 20, "{tally:?}");
    Ok(())
}

#[test]
fn without_faults_nothing_is_bounced() -> Result<(), Broken> {
    let simulation = Simulation::new(varied).faults(Faults::none());

    let tally = simulation.safety(0..10)?;

    assert_eq!(tally.faults, 0);
    Ok(())
}

#[test]
fn notes_of_workers_are_in_the_trace() -> Result<(), Broken> {
    let simulation = Simulation::new(|setup| {
        let notes = setup.notes();
        let noting = Manifold::builder().run_with(notes, |notes, (), up| async move {
            let stop = up.ready(());
            notes.note("the site is up");
            stop.wait().await;
            Ok(())
        });
        setup.install(SITE, noting);
    });

    let trace = simulation.faults(Faults::none()).run(0, Mode::Safety)?;

    assert!(trace.lines().contains(&"     0.000 s  # the site is up".to_owned()), "{trace}");
    Ok(())
}

#[test]
fn every_run_is_set_up_anew() -> Result<(), Broken> {
    let setups = Cell::new(0);
    let simulation = Simulation::new(|setup| {
        setups.set(setups.get() + 1);
        setup.install(BASE, base());
    });

    for seed in 0..3 {
        simulation.run(seed, Mode::Safety)?;
    }

    assert_eq!(setups.get(), 3);
    Ok(())
}

#[test]
fn it_is_calm_where_nothing_strikes() -> Result<(), Broken> {
    let simulation = |faults| {
        let simulation = Simulation::new(|setup| {
            let notes = setup.notes();
            let noting = Manifold::builder().run_with(notes, |notes, (), up| async move {
                notes.note(format!("it is calm: {}", notes.is_calm()));
                up.ready(()).wait().await;
                Ok(())
            });
            setup.install(SITE, noting);
        });
        simulation.faults(faults).run(0, Mode::Safety)
    };
    // The order of tasks strikes nobody.
    let calm = simulation(Faults::none().yields(3))?;
    let other = simulation(Faults::none().run_bounce(0.1))?;

    assert!(calm.to_string().contains("it is calm: true"), "{calm}");
    assert!(other.to_string().contains("it is calm: false"), "{other}");
    Ok(())
}

#[test]
fn who_is_installed_again_keeps_its_generation_until_it_is_started() -> Result<(), Broken> {
    let simulation = Simulation::new(|setup| {
        setup.install(BASE, base());
        setup.install(TOP, add_one(BASE));
        let mut had_one = false;
        setup.invariant("top has a generation once it had one", move |view| {
            had_one |= view.generation("/top") > 0;
            !had_one || view.generation("/top") > 0
        });
    });

    let tally = simulation.safety(0..20)?;

    assert!(tally.starts > 20, "{tally:?}");
    Ok(())
}

#[test]
fn who_uses_a_part_of_a_value_is_bounced_only_for_another_part() -> Result<(), Broken> {
    let simulation = Simulation::new(|setup| {
        setup.input(LIMIT, vec![1, 2, 3, 4]);
        let parity = Manifold::builder().inputs(LIMIT.select(|limit| limit % 2));
        let parity = parity.offers::<(u32,)>().run(|parity, up| async move {
            up.ready((parity,)).wait().await;
            Ok(())
        });
        setup.install(BASE, parity);
        setup.install(TOP, add_one(BASE));
        setup.install(PAGE, frugal(TOP, BASE));
    });

    simulation.safety(0..50)?;
    simulation.liveness(0..50)?;
    Ok(())
}
