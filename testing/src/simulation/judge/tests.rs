//! The wrong reports that the judge of a simulation finds.

use std::error::Error;
use std::time::Duration;

use crankcase_engine::{Engine, EventKind, Manifold, Name, Notice, Report, WorkerState};
use tokio::time::Instant;

use super::Judge;

#[test]
fn each_name_in_each_engine_has_a_seat_of_its_own() {
    let mut judge = Judge::default();
    let paths = [
        ("/site", "worker-1"),
        ("/site", "worker-2"),
        ("/sitf", "worker-2"),
        ("", "worker-2"),
        ("/site/er", "worker-1"),
    ];

    let seats = paths.map(|(engine, name)| judge.index_of(engine, name));

    assert_eq!(seats, [0, 1, 2, 3, 4]);
    assert_eq!(paths.map(|(engine, name)| judge.index_of(engine, name)), seats);
    for (seat, (engine, name)) in seats.into_iter().zip(paths) {
        let path = format!("{engine}/{name}");
        assert_eq!(&**judge.path(seat), path);
        assert!(judge.seat(&path).is_none());
        let judged = judge.event(Duration::ZERO, engine, Some(seat), &EventKind::Installed);
        assert_eq!(judged, Ok(()));
        assert_eq!(judge.seat(&path).map(|seat| &*seat.path), Some(&*path));
    }
}

#[test]
fn who_is_not_installed_is_not_judged_at_each_moment() {
    let mut judge = Judge::default();
    let (there, gone) = (judge.index_of("", "there"), judge.index_of("", "gone"));
    judge.index_of("", "never");
    for (after, index, kind) in [
        (1, there, EventKind::Installed),
        (1, gone, EventKind::Installed),
        (2, gone, EventKind::Uninstalled),
        (3, there, EventKind::Bounced),
    ] {
        let judged = judge.event(Duration::from_secs(after), "", Some(index), &kind);
        assert_eq!(judged, Ok(()));
    }

    assert_eq!(judge.idle, [there]);
}

/// Returns the report of an engine in which one worker backs off, its judge, and the time.
async fn of_one_that_backs_off() -> Result<(Report, Judge, Duration), Box<dyn Error>> {
    let began = Instant::now();
    let engine = Engine::builder().build()?;
    let mut events = engine.events();
    let fails = Manifold::builder().run(|(), _up| async { Err("it broke".into()) });
    engine.install(Name::<()>::new("web"), fails).await?;
    engine.settled().await?;

    let mut judge = Judge::default();
    while let Some(notice) = events.try_next() {
        let Notice::Event(event) = notice else { return Err("events were missed".into()) };
        let worker = event.worker().map(|name| judge.index_of(event.engine(), name));
        judge.event(Duration::ZERO, event.engine(), worker, &event.kind)?;
    }
    let report = engine.report().await;
    engine.stop().await?;
    Ok((report, judge, began.elapsed()))
}

#[tokio::test(start_paused = true)]
async fn a_report_that_leaves_out_who_is_installed_is_found() -> Result<(), Box<dyn Error>> {
    let (mut report, judge, at) = of_one_that_backs_off().await?;
    assert_eq!(judge.report(&report, at, false), Ok(()));

    report.workers.clear();

    let expected = "P9: the report leaves out /web, which is installed";
    assert_eq!(judge.report(&report, at, false), Err(expected.to_owned()));
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_report_of_another_reason_to_rest_is_found() -> Result<(), Box<dyn Error>> {
    let (mut report, judge, at) = of_one_that_backs_off().await?;

    report.workers.get_mut("web").ok_or("it is there")?.state = WorkerState::Done;

    let expected = "P9: the report says that /web is done, but it is backing off";
    assert_eq!(judge.report(&report, at, false), Err(expected.to_owned()));
    // When the wait is over, the engine may know more.
    assert_eq!(judge.report(&report, at + Duration::from_secs(60), false), Ok(()));
    Ok(())
}
