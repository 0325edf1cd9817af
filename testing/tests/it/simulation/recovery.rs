//! Who must be up again when the faults have stopped, and who need not.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use crankcase_engine::{Changing, Engine, EngineInput, Exit, Intensity, Manifold, Name, Policy};
use crankcase_testing::{Broken, Faults, Mode, Setup, Simulation};
use tokio::sync::watch;
use tokio::time::sleep;

use super::{BASE, LIMIT, PAGE, SITE, TOP, base};
use crate::TestResult;

/// Returns a manifold that lacks something while its input is zero.
fn picky(input: Name<u32>) -> Manifold {
    Manifold::builder().inputs(input).offers::<(u32,)>().run(|value, up| async move {
        if value == 0 {
            return Err(Exit::missing("there are no pages"));
        }
        up.ready((value,)).wait().await;
        Ok(())
    })
}

/// Returns a manifold that never comes up again after a worker of it did not run to its end.
fn spoilt(input: Name<u32>) -> Manifold {
    let is_spoilt = Arc::new(AtomicBool::new(false));
    let builder = Manifold::builder().inputs(input);
    builder.run_with(is_spoilt, |is_spoilt, _, up| async move {
        if is_spoilt.swap(true, Ordering::Relaxed) {
            return Err("its lock file is there already".into());
        }
        up.ready(()).wait().await;
        is_spoilt.store(false, Ordering::Relaxed);
        Ok(())
    })
}

/// Returns a manifold that is done after a while.
fn passing(after: Duration) -> Manifold {
    Manifold::builder().run(move |(), up| async move {
        let stop = up.ready(());
        tokio::select! {
            biased;
            () = stop.wait() => {}
            () = sleep(after) => {}
        }
        Ok(())
    })
}

/// What is not up, by what these runs say.
fn said_of(build: impl Fn(&mut Setup)) -> Option<String> {
    Simulation::new(build).liveness(0..20).err().map(|broken| broken.what().to_owned())
}

#[test]
fn who_needs_the_first_value_of_an_input_recovers() -> Result<(), Broken> {
    let simulation = Simulation::new(|setup| {
        setup.input(LIMIT, vec![3, 0]);
        setup.install(TOP, picky(LIMIT));
    });

    simulation.liveness(0..20)?;
    Ok(())
}

#[test]
fn who_is_done_after_a_while_has_recovered() -> Result<(), Broken> {
    let simulation =
        || Simulation::new(|setup| setup.install(SITE, passing(Duration::from_secs(5))));

    simulation().faults(Faults::none()).liveness(0..1)?;
    simulation().liveness(0..20)?;
    Ok(())
}

#[test]
fn who_is_done_later_than_was_seen_without_faults_has_recovered() -> Result<(), Broken> {
    let simulation = Simulation::new(|setup| {
        setup.install(SITE, passing(Duration::from_secs(400)));
        // Keeps the others waiting for it.
        setup.recovered("it is late", |view| view.at() > Duration::from_secs(1_500));
    });

    simulation.liveness(0..20)?;
    Ok(())
}

#[test]
fn who_comes_up_at_the_second_try_must_be_up_again() {
    let said = said_of(|setup| {
        let tries = Arc::new(AtomicU32::new(0));
        let feed =
            Manifold::builder().offers::<(u32,)>().run_with(tries, |tries, (), up| async move {
                if tries.fetch_add(1, Ordering::Relaxed) == 0 {
                    return Err("the line is busy".into());
                }
                up.ready((1,)).wait().await;
                Ok(())
            });
        setup.install(BASE, feed);
        setup.install(SITE, spoilt(BASE));
    });

    let begin = "P5: /site is not up within 3600s after the faults have stopped: /site failed";
    assert!(said.as_ref().is_some_and(|said| said.starts_with(begin)), "{said:?}");
}

/// Returns a manifold whose value changes once, after a while.
fn gate(first: u32, second: u32) -> Manifold {
    Manifold::builder().offers::<(Changing<u32>,)>().run(move |(), up| async move {
        let (sender, receiver) = watch::channel(first);
        let stop = up.ready((Changing::new(receiver),));
        tokio::select! {
            biased;
            () = stop.wait() => return Ok(()),
            () = sleep(Duration::from_secs(20)) => {}
        }
        sender.send_replace(second);
        stop.wait().await;
        Ok(())
    })
}

#[test]
fn who_was_done_and_lacks_something_later_need_not_be_done_again() -> Result<(), Broken> {
    let simulation = Simulation::new(|setup| {
        setup.install(BASE, gate(1, 0));
        let once = Manifold::builder().inputs(BASE).run(|value, up| async move {
            if value == 0 {
                return Err(Exit::missing("it is too late"));
            }
            drop(up.ready(()));
            Ok(())
        });
        setup.install(SITE, once);
    });

    simulation.liveness(0..20)?;
    Ok(())
}

#[test]
fn who_comes_up_after_a_while_must_be_up_again() {
    let said = said_of(|setup| {
        setup.install(BASE, gate(0, 1));
        setup.install(TOP, picky(BASE));
        setup.install(SITE, spoilt(TOP));
    });

    let begin = "P5: /site is not up within 3600s after the faults have stopped: /site failed";
    assert!(said.as_ref().is_some_and(|said| said.starts_with(begin)), "{said:?}");
}

#[test]
fn who_has_a_delay_that_grows_waits_also_as_a_follower() -> Result<(), Broken> {
    let simulation = Simulation::new(|setup| {
        setup.install(BASE, base());
        let user = Manifold::builder().inputs(BASE).run(|_, up| async move {
            up.ready(()).wait().await;
            Ok(())
        });
        let max = Duration::from_secs(60);
        setup.install(SITE, user.max_bounce_delay(max));
        setup.waits("site", Policy::default().max_bounce_delay(max));
    });

    simulation.safety(0..20)?;
    Ok(())
}

#[test]
fn who_says_wrongly_that_something_is_missing_is_not_put_right_by_the_simulation() {
    let simulation = Simulation::new(|setup| {
        let is_lost = Arc::new(AtomicBool::new(false));
        let stuck = Manifold::builder().offers::<(u32,)>().run_with(
            is_lost,
            |is_lost, (), up| async move {
                if is_lost.swap(false, Ordering::Relaxed) {
                    return Err(Exit::missing("the connection is lost"));
                }
                is_lost.store(true, Ordering::Relaxed);
                up.ready((1,)).wait().await;
                is_lost.store(false, Ordering::Relaxed);
                Ok(())
            },
        );
        setup.install(BASE, stuck);
    });

    let simulation = simulation.faults(Faults::default().run_error(0.5));
    let is_found = |seed: &u64| simulation.run(*seed, Mode::Liveness).is_err();
    let found = (0..20).filter(is_found).count();

    assert!(found >= 10, "{found} of 20 seeds find it");
}

#[test]
fn who_has_failed_too_often_among_faults_recovers() -> TestResult {
    let faults = Faults::none().run_error(1.0).calls_every(Duration::ZERO);
    let simulation = Simulation::new(|setup| {
        let intensity = Intensity::new(2, Duration::from_secs(300));
        setup.install(BASE, base().intensity(intensity));
    });

    let trace = simulation.faults(faults).run(0, Mode::Liveness)?;

    let is_spent = |line: &String| line.contains("/base parked after 3 failures");
    assert!(trace.lines().iter().any(is_spent), "{trace}");
    Ok(())
}

/// Returns a manifold that is up for a while, and takes a while to stop.
fn slow_to_stop(stops_for: Duration) -> Manifold {
    let builder = Manifold::builder().offers::<(u32,)>();
    let slow = builder.run_with(stops_for, |stops_for, (), up| async move {
        up.ready((1,)).wait().await;
        sleep(stops_for).await;
        Ok(())
    });
    slow.grace(2 * stops_for)
}

/// Returns a manifold that kills its engine after a while.
fn killer(after: Duration) -> Manifold {
    let builder = Manifold::builder().inputs(EngineInput);
    builder.run(move |engine, up| async move {
        let stop = up.ready(());
        tokio::select! {
            biased;
            () = stop.wait() => {}
            () = sleep(after) => engine.kill(),
        }
        stop.wait().await;
        Ok(())
    })
}

/// Returns a nested engine that ends after a while, for which it takes a while.
fn passing_engine(after: Duration, ends_for: Duration) -> Manifold {
    let nested = Manifold::builder().start(move |(), ctx| async move {
        let engine = Engine::builder().build_nested(&ctx)?;
        engine.install(PAGE, slow_to_stop(ends_for)).await?;
        engine.install(SITE, killer(after)).await?;
        Ok(engine)
    });
    nested.build()
}

#[test]
fn a_nested_engine_that_stops_is_not_at_rest() -> Result<(), Broken> {
    let simulation = Simulation::new(|setup| {
        setup.install(SITE, passing_engine(Duration::from_secs(299), Duration::from_secs(3000)));
    });

    simulation.faults(Faults::none()).liveness(0..1)?;
    Ok(())
}

#[test]
fn an_engine_that_ends_by_itself_at_any_moment_has_recovered() -> Result<(), Broken> {
    for after in [10, 299] {
        let simulation = Simulation::new(|setup| {
            setup.install(BASE, slow_to_stop(Duration::from_secs(100)));
            setup.install(SITE, killer(Duration::from_secs(after)));
        });

        simulation.faults(Faults::none()).liveness(0..1)?;
    }
    Ok(())
}

#[test]
fn the_trace_shows_by_what_who_does_not_recover_was_struck() -> TestResult {
    let simulation = Simulation::new(|setup| {
        setup.input(LIMIT, vec![1, 2]);
        setup.install(SITE, spoilt(LIMIT));
    });

    let broken = simulation.liveness(0..20).err().ok_or("it recovers")?;

    let text = broken.to_string();
    let (head, rest) =
        text.split_once("what has become of /site and what it uses").ok_or(&*text)?;
    let (story, tail) = rest.split_once("\nthe last 20 of ").ok_or(&*text)?;
    // It is found when the time to recover is over, not when something was last told.
    let at = head.split_once(", after ").and_then(|(_, at)| at.split_once(" s: ")).ok_or(&*text)?.0;
    assert!(at.parse::<f64>()? >= 3_600.0, "{text}");
    let place = |wanted: &str| story.find(wanted).ok_or_else(|| format!("{wanted}: {text}"));
    let (up, struck) = (place("/site started, generation")?, place("s  ! /site ")?);
    let (failed, calm) = (place("its lock file is there already")?, place("# the faults stop")?);
    assert!(up < struck && struck < failed && failed < calm, "{text}");
    assert!(story[calm..].contains(" more like these"), "{text}");
    assert!(tail.lines().count() <= 22 && story.lines().count() <= 62, "{text}");
    Ok(())
}
