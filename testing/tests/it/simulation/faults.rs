//! That faults strike where and as often as they say.

use std::time::Duration;

use crankcase_engine::{Manifold, Outcome, Stop, Worker};
use crankcase_testing::{Broken, Faults, Mode, Notes, Setup, Simulation};
use tokio::time::sleep;

use super::{BASE, SITE, base};

struct Idle;

impl Worker for Idle {
    async fn run(self, stop: Stop) -> Outcome {
        stop.wait().await;
        Ok(())
    }
}

/// Returns a manifold whose start takes no time.
fn staged() -> Manifold {
    Manifold::builder().start(|(), _ctx| async { Ok(Idle) }).build()
}

/// Returns a manifold whose start waits several times, and notes when it has begun.
fn staged_slowly(notes: Notes) -> Manifold {
    Manifold::builder()
        .start_with(notes, |notes, (), _ctx| async move {
            notes.note("its start has begun");
            for _ in 0..3 {
                sleep(Duration::from_secs(1)).await;
            }
            Ok(Idle)
        })
        .build()
}

/// Returns a closure that waits several times before it is up, and notes when it has begun.
fn closure_slowly(notes: Notes) -> Manifold {
    Manifold::builder().run_with(notes, |notes, (), up| async move {
        notes.note("its start has begun");
        for _ in 0..3 {
            sleep(Duration::from_secs(1)).await;
        }
        up.ready(()).wait().await;
        Ok(())
    })
}

type Install = fn(&mut Setup);

/// What is installed, by what it is.
const KINDS: [(&str, Install); 4] = [
    ("a closure", |setup| setup.install(BASE, base())),
    ("a start", |setup| setup.install(SITE, staged())),
    ("a slow closure", |setup| setup.install(SITE, closure_slowly(setup.notes()))),
    ("a slow start", |setup| setup.install(SITE, staged_slowly(setup.notes()))),
];

#[test]
fn nobody_comes_up_of_whom_every_start_is_struck() -> Result<(), Broken> {
    let faults = [
        Faults::none().start_error(1.0),
        Faults::none().start_panic(1.0),
        Faults::none().start_hang(1.0),
    ];
    for (kind, install) in KINDS {
        for faults in &faults {
            let simulation = Simulation::new(install).faults(faults.clone());

            let tally = simulation.run(0, Mode::Safety)?.tally();

            assert_eq!(tally.starts, 0, "{kind}: {faults:?}");
            assert!(tally.faults > 0, "{kind}: {faults:?}");
        }
    }
    Ok(())
}

#[test]
fn a_share_is_of_all_starts() -> Result<(), Broken> {
    let faults = Faults::none().start_error(0.5).run_bounce(1.0);
    for (kind, install) in KINDS {
        let simulation = Simulation::new(install).faults(faults.clone());

        let trace = simulation.lasts(Duration::from_secs(40_000)).run(0, Mode::Safety)?;

        let lines = trace.lines();
        let count = |text| lines.iter().filter(|line| line.contains(text)).count();
        let (starts, struck) = (count("starting"), count("fails in its start"));
        assert!(starts > 200, "{kind}: {starts}");
        let share = struck as f64 / starts as f64;
        assert!((0.4..0.6).contains(&share), "{kind}: {struck} of {starts}");
    }
    Ok(())
}

#[test]
fn starts_that_wait_are_struck_while_they_do() -> Result<(), Broken> {
    let faults = Faults::none().start_error(0.5).run_bounce(1.0);
    for (kind, install) in &KINDS[2..] {
        let simulation = Simulation::new(install).faults(faults.clone());

        let lines = simulation.run(0, Mode::Safety)?.lines();

        let is_in_the_middle = |pair: &[String]| {
            pair[0].contains("its start has begun") && pair[1].contains("fails in its start")
        };
        let count = lines.windows(2).filter(|pair| is_in_the_middle(pair)).count();
        assert!(count > 1, "{kind}: {count}");
    }
    Ok(())
}

#[test]
fn what_never_comes_and_has_no_end_is_borne() -> Result<(), Broken> {
    let ever = Duration::MAX;
    let faults =
        Faults::none().run_bounce(1.0).calls_every(ever).values_every(ever).jumps_every(ever);
    let simulation = Simulation::new(|setup| setup.install(BASE, base())).faults(faults);

    let trace = simulation.settles_within(ever).stops_within(ever).run(0, Mode::Liveness)?;

    let is_struck = |line: &&String| line.contains("! ") && !line.contains("asks for a bounce");
    assert_eq!(trace.lines().iter().find(is_struck), None);
    Ok(())
}

#[test]
fn a_run_without_an_end_ends_by_its_events() -> Result<(), &'static str> {
    let simulation = Simulation::new(|setup| setup.install(BASE, base()));
    let faults = Faults::none().run_bounce(1.0);
    let simulation = simulation.faults(faults).lasts(Duration::MAX).most_events(1_000);

    let broken = simulation.run(0, Mode::Safety).err().ok_or("it has ended")?;

    assert_eq!(broken.what(), "there were more than 1000 events; is there a wait of zero?");
    Ok(())
}

#[test]
fn times_beyond_all_clocks_are_refused() -> Result<(), &'static str> {
    let faults = Faults::default().jump(Duration::MAX);

    let error = faults.validate().err().ok_or("it is right")?;

    let expected = "jump is 18446744073709551615.999999999s; expected a year at most";
    assert_eq!(error.to_string(), expected);
    Ok(())
}
