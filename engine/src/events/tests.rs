use std::sync::Arc;
use std::time::{Duration, SystemTime};

use super::{Events, Log, Notice, Record};
use crate::event::EventKind;

/// Enters events of an engine that are told apart by their generations.
fn push(log: &Log, seconds: u64, engine: &str, generations: std::ops::Range<u32>) {
    let records = generations.map(|generation| Record {
        kind: EventKind::Started { generation },
        origin: None,
        name: None,
    });
    let at = SystemTime::UNIX_EPOCH + Duration::from_secs(seconds);
    log.push(at, &Arc::from(engine), &mut records.collect());
}

fn all(events: &mut Events) -> Vec<String> {
    let next = || events.try_next();
    let told = std::iter::from_fn(next).map(|notice| match notice {
        Notice::Event(event) => format!("{} {event}", event.sequence),
        Notice::Missed(count) => format!("missed {count}"),
    });
    told.map(|line| line.replace("1970-01-01T00:00:0", "").replace(".000Z", "")).collect()
}

#[test]
fn each_event_has_what_its_moment_has() {
    let log = Arc::new(Log::new(8));
    let mut events = log.subscribe();

    push(&log, 1, "/a", 0..2);
    push(&log, 2, "/b", 2..3);
    push(&log, 3, "/a", 3..3);
    push(&log, 4, "/a", 4..5);

    assert_eq!(
        all(&mut events),
        [
            "0 1 /a started, generation 0",
            "1 1 /a started, generation 1",
            "2 2 /b started, generation 2",
            "3 4 /a started, generation 4",
        ]
    );
}

#[test]
fn the_newest_stay_and_what_they_have_with_them() {
    let log = Arc::new(Log::new(3));
    let mut events = log.subscribe();

    push(&log, 1, "/a", 0..2);
    push(&log, 2, "/b", 2..4);
    assert_eq!(
        all(&mut events),
        [
            "missed 1",
            "1 1 /a started, generation 1",
            "2 2 /b started, generation 2",
            "3 2 /b started, generation 3",
        ]
    );

    push(&log, 3, "/c", 4..10);
    assert_eq!(
        all(&mut events),
        [
            "missed 3",
            "7 3 /c started, generation 7",
            "8 3 /c started, generation 8",
            "9 3 /c started, generation 9",
        ]
    );
    assert_eq!(log.ring.lock().moments.len(), 1);
}
