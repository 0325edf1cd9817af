//! How a simulation tells what it has found. Its clock is paused: no sleep takes real time.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use crankcase_engine::{Backoff, EngineInput, Exit, Manifold, Name, Policy};
use crankcase_testing::{Faults, Mode, Setup, Simulation};

use super::{BASE, PAGE, SITE, TOP, add_one, base};
use crate::TestResult;

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
fn who_has_lost_its_input_is_up_until_its_users_have_stopped() -> TestResult {
    let simulation = Simulation::new(|setup| {
        setup.install(BASE, base());
        setup.install(TOP, add_one(BASE));
        setup.install(PAGE, add_one(TOP));
        // Easily said, and wrong.
        setup.invariant("top is up only while base is", |view| {
            !view.is_up("/top") || view.is_up("/base")
        });
    });

    let broken = simulation.safety(0..20).err().ok_or("it holds")?;

    assert_eq!(broken.what(), "invariant: top is up only while base is");
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
                engine.uninstall(BASE).await?;
            }
            up.ready(()).wait().await;
            Ok(())
        });
        setup.install(SITE, sweeper);
    });
    let faults = Faults::default().calls_every(Duration::ZERO);

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
fn what_a_run_without_faults_finds_is_found_again_by_its_seed() -> TestResult {
    let simulation = Simulation::new(|setup| {
        setup.install(BASE, base());
        setup.install(TOP, add_one(BASE));
        setup.spare("/base");
        setup.invariant("top never comes up", |view| !view.is_up("/top"));
    });
    // Among the faults it does not, so it is looked at without any.
    let simulation = simulation.faults(Faults::none().start_error(1.0));

    let broken = [simulation.safety(3..5), simulation.liveness(3..5)];

    for (broken, mode) in broken.into_iter().zip(["safety", "liveness"]) {
        let text = broken.err().ok_or("it holds")?.to_string();
        let begin =
            format!("simulation ({mode}, its run without faults) with seed 3, after 0.000 s: ");
        assert!(text.starts_with(&begin), "{text}");
        assert!(text.contains("\nreplay it with CRANKCASE_SIM_SEED=3\n"), "{text}");
    }
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
fn shares_that_are_none_are_refused() -> TestResult {
    let wrong = Faults::none().run_panic(1.5);
    assert_eq!(
        wrong.validate().err().ok_or("it is right")?.to_string(),
        "run_panic is 1.5; expected a share from 0 to 1"
    );

    let too_many = Faults::none().stop_slow(0.6).stop_ignored(0.6);
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
            let working = Manifold::builder().run_with(
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
fn who_asks_for_real_input_and_output_is_named() -> TestResult {
    let simulation = Simulation::new(|setup| {
        let listens = Manifold::builder().run(|(), up| async move {
            let _listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
            up.ready(()).wait().await;
            Ok(())
        });
        setup.install(SITE, listens);
    });

    let broken = simulation.faults(Faults::none()).safety(0..1).err().ok_or("it listens")?;

    let begin = "/site asks tokio for real input and output, of which a simulation has none: ";
    assert!(broken.what().starts_with(begin), "{}", broken.what());
    Ok(())
}

/// What is added to a setup.
type Add = fn(&mut Setup);

/// Returns what two runs of a base with this added to its setup say.
fn said_of(add: Add) -> Option<String> {
    let simulation = Simulation::new(|setup| {
        setup.install(BASE, base());
        add(setup);
    });
    simulation.liveness(0..2).err().map(|broken| broken.what().to_owned())
}

#[test]
fn a_path_that_nobody_has_in_any_run_fails_a_simulation() {
    let unknown: [(&str, Add); 5] = [
        ("/bsae", |setup| setup.invariant("", |view| view.starts("/bsae") < 1)),
        ("bsae", |setup| setup.invariant("", |view| view.is_up("bsae") || !view.is_up("bsae"))),
        ("/x", |setup| setup.recovered("", |view| view.is_up("/base") && !view.is_live("/x"))),
        ("/bsae", |setup| setup.spare("/bsae")),
        ("/bsae", |setup| setup.waits("/bsae", Policy::default())),
    ];
    for (path, add) in unknown {
        let expected = format!("{path:?} was asked for, and nobody has that path in any run");
        assert_eq!(said_of(add), Some(expected));
    }
}

#[test]
fn a_path_that_somebody_has_in_some_run_is_right() -> TestResult {
    let simulation = Simulation::new(|setup| {
        setup.install(BASE, base());
        if setup.number(0..2) == 0 {
            setup.install(Name::<u32>::new("web.cache"), add_one(BASE));
        }
        setup.spare("/web.cache");
        setup.invariant("", |view| view.starts("/web.cache") < 1_000);
    });

    simulation.safety(0..10)?;
    Ok(())
}

#[test]
fn runs_in_which_nobody_comes_up_have_judged_nothing() {
    let simulation = Simulation::new(|setup| setup.install(TOP, add_one(BASE)));

    let said = simulation.safety(0..3).err().map(|broken| broken.what().to_owned());

    let expected = "nobody has come up in any run, so nothing was judged";
    assert_eq!(said.as_deref(), Some(expected));
}
