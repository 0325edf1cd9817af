//! Simulations: what they find, what they say of it, and that they replay.

use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use crankcase_engine::{Backoff, EndKind, Engine, EngineInput, Exit, Manifold, Name, Policy};
use crankcase_testing::{Broken, Faults, Mode, Notes, Setup, Simulation};

use crate::TestResult;

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
        |mut value, up| async move {
            tokio::time::sleep(Duration::from_millis(300)).await;
            let stop = up.ready((value.get().unwrap_or(0),));
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
        setup.waits(path, Policy::default());
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
    let tally = Simulation::new(varied).liveness(0..100)?;

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
fn an_invariant_that_does_not_hold_is_told_with_its_seed_and_a_trace() -> TestResult {
    let simulation = Simulation::new(|setup| {
        setup.install(BASE, base());
        setup.install(TOP, add_one(BASE));
        setup.invariant("top is started at most three times", |view| view.generation("/top") <= 3);
    });

    let broken = simulation.safety(5..50).err().ok_or("it holds")?;

    let text = broken.to_string();
    assert_eq!(broken.what(), "invariant: top is started at most three times");
    assert!(text.contains(&format!("replay it with CRANKCASE_SIM_SEED={}\n", broken.seed())));
    assert!(text.contains(" s  /top starting, generation 4\n"), "{text}");
    let again = simulation.run(broken.seed(), Mode::Safety).err().ok_or("it holds")?;
    assert_eq!(again.trace().lines(), broken.trace().lines());
    Ok(())
}

#[test]
fn who_does_not_recover_is_named_with_the_reason() -> TestResult {
    // Its first failure spoils what it keeps beside itself.
    let simulation = Simulation::new(|setup| {
        let is_spoilt = Arc::new(AtomicBool::new(false));
        let spoilt = Manifold::builder().offers::<(u32,)>().run_with(
            is_spoilt,
            |is_spoilt, (), up| async move {
                if is_spoilt.swap(true, Ordering::Relaxed) {
                    return Err("its lock file is there already".into());
                }
                up.ready((1,)).wait().await;
                is_spoilt.store(false, Ordering::Relaxed);
                Ok(())
            },
        );
        setup.install(BASE, spoilt);
        setup.install(TOP, add_one(BASE));
    });

    let broken = simulation.liveness(0..50).err().ok_or("it recovers")?;

    let begin = "P5: /base is not up within 3600s after the faults have stopped: /base failed ";
    assert!(broken.what().starts_with(begin), "{}", broken.what());
    assert!(broken.what().contains("its lock file is there already"), "{}", broken.what());
    Ok(())
}

#[test]
fn who_is_taken_out_for_ever_has_not_recovered() -> TestResult {
    // Whoever is started again takes it that what is there is of no use any more.
    let simulation = Simulation::new(|setup| {
        setup.install(BASE, base());
        let sweeper = Manifold::builder().inputs(EngineInput).run(|engine, up| async move {
            if up.context().generation() > 1 {
                engine.uninstall(&BASE).await?;
            }
            up.ready(()).wait().await;
            Ok(())
        });
        setup.install(SITE, sweeper);
    });
    let faults = Faults { calls_every: Duration::ZERO, ..Faults::default() };

    let broken = simulation.faults(faults).liveness(0..50).err().ok_or("it recovers")?;

    let begin = "P5: /base is not up within 3600s after the faults have stopped: ";
    assert!(broken.what().starts_with(begin), "{}", broken.what());
    Ok(())
}

#[test]
fn manifolds_that_do_not_fit_together_are_told() -> TestResult {
    let simulation = Simulation::new(|setup| {
        setup.install(BASE, base());
        setup.install(TOP, add_one(TOP));
    });

    let broken = simulation.safety(0..1).err().ok_or("they fit")?;

    let begin = "the manifolds do not fit together: cannot install manifold \"top\": it would";
    assert!(broken.what().starts_with(begin), "{}", broken.what());
    Ok(())
}

#[test]
fn a_fatal_end_is_told() -> TestResult {
    let simulation = Simulation::new(|setup| {
        let fatal = Manifold::builder().run(|(), _up| async { Err(Exit::fatal("it broke")) });
        setup.install(SITE, fatal);
    });

    let broken = simulation.safety(0..1).err().ok_or("it held")?;

    assert_eq!(broken.what(), "the engine ended with an error: worker /site had a fatal error");
    Ok(())
}

#[test]
fn a_loop_without_a_wait_is_told() -> TestResult {
    let simulation = Simulation::new(|setup| {
        let fails = Manifold::builder().run(|(), _up| async { Err("it broke".into()) });
        setup.install(SITE, fails.backoff(Backoff::none()));
    });

    let simulation = simulation.faults(Faults::none()).most_events(1_000);
    let broken = simulation.safety(0..1).err().ok_or("it held")?;

    assert_eq!(broken.what(), "there were more than 1000 events; is there a wait of zero?");
    Ok(())
}

#[test]
fn who_outlives_the_end_is_named() -> TestResult {
    let simulation = Simulation::new(|setup| {
        let slow = Manifold::builder().run(|(), up| async move {
            up.ready(()).wait().await;
            tokio::time::sleep(Duration::from_secs(20)).await;
            Ok(())
        });
        setup.install(SITE, slow);
    });
    let simulation = simulation.faults(Faults::none()).stops_within(Duration::from_secs(10));

    let broken = simulation.safety(0..1).err().ok_or("it ended")?;

    assert_eq!(broken.what(), "P6: it has not ended within 10s: /site");
    Ok(())
}

#[test]
fn a_seed_that_does_not_replay_says_so() -> TestResult {
    let runs = AtomicU64::new(0);
    let simulation = Simulation::new(|setup| {
        let run = runs.fetch_add(1, Ordering::Relaxed);
        setup.install(BASE, base());
        setup.invariant("it is the second run", move |_| run > 0);
    });

    let broken = simulation.safety(0..1).err().ok_or("it holds")?;

    assert!(broken.to_string().contains("the seed does not replay"), "{broken}");
    Ok(())
}

#[test]
fn a_panic_in_an_invariant_is_told_with_the_seed() -> TestResult {
    let simulation = Simulation::new(|setup| {
        setup.install(BASE, base());
        setup.invariant("it is looked at", |_| panic!("it cannot be"));
    });

    let broken = simulation.safety(3..4).err().ok_or("it holds")?;

    assert_eq!(broken.what(), "the simulation itself panicked: it cannot be");
    assert_eq!(broken.seed(), 3);
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
        let noting =
            Manifold::builder().offers::<()>().run_with(notes, |notes, (), up| async move {
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
fn shares_that_are_none_are_refused() -> TestResult {
    let wrong = Faults { run_panic: 1.5, ..Faults::none() };
    assert_eq!(
        wrong.validate().err().ok_or("it is right")?.to_string(),
        "run_panic is 1.5; expected a share from 0 to 1"
    );

    let too_many = Faults { stop_slow: 0.6, stop_ignored: 0.6, ..Faults::none() };
    assert_eq!(
        too_many.validate().err().ok_or("it is right")?.to_string(),
        "stop_slow is 1.2; expected a share that with the others of its moment is at most 1"
    );
    Ok(())
}

#[test]
fn what_must_come_to_hold_is_waited_for_and_told_if_it_does_not() -> TestResult {
    let simulation = |enough: u64| {
        Simulation::new(move |setup| {
            let notes = setup.notes();
            let count = Arc::new(AtomicU64::new(0));
            // It works only when all is calm.
            let working = Manifold::builder().offers::<()>().run_with(
                (notes, Arc::clone(&count)),
                |(notes, count), (), up| async move {
                    let stop = up.ready(());
                    loop {
                        tokio::select! {
                            biased;
                            () = stop.wait() => return Ok(()),
                            () = tokio::time::sleep(Duration::from_secs(60)) => {}
                        }
                        count.fetch_add(u64::from(notes.is_calm()), Ordering::Relaxed);
                    }
                },
            );
            setup.install(SITE, working);
            setup.recovered("enough was done", move |_| count.load(Ordering::Relaxed) >= enough);
        })
    };
    simulation(50).run(0, Mode::Liveness)?;

    let broken = simulation(70).run(0, Mode::Liveness).err().ok_or("it was done")?;

    let text = "not within 3600s after the faults have stopped: enough was done";
    assert_eq!(broken.what(), text);
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
