use std::time::Duration;

use crankcase_engine::EventKind;

use super::Judge;

#[test]
fn a_name_is_told_from_another_one_at_its_place_in_memory() {
    let mut judge = Judge::default();
    let mut name = "worker-1".to_owned();
    let first = judge.index_of("/site", &name);
    let place = name.as_ptr();

    name.replace_range(7.., "2");
    assert_eq!(name.as_ptr(), place);

    let second = judge.index_of("/site", &name);
    assert_ne!(first, second);
    assert_ne!(judge.index_of("/sitf", &name), second);
    assert_ne!(judge.index_of("", &name), second);
    assert_ne!(judge.index_of("/site/er", "worker-1"), first);
    assert_eq!(judge.index_of("/site", "worker-1"), first);
    assert_eq!(judge.seat("/site/worker-2").map(|seat| &*seat.path), Some("/site/worker-2"));
    assert_eq!(&**judge.path(first), "/site/worker-1");
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
