use std::time::Duration;

use crankcase_engine::EventKind;

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
