//! The events that the log keeps, and the readers that it wakes.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use super::{EventRef, Events, Log, Notice, Record};
use crate::seen::event::EventKind;

/// Enters events of an engine that are told apart by their generations.
fn push(log: &Log, seconds: u64, engine: &str, generations: std::ops::Range<u32>) {
    let mut records = Vec::new();
    for generation in generations {
        Record::push(
            &mut records,
            EventKind::Started { generation },
            (None, EventRef::default()),
            None,
        );
    }
    let at = (SystemTime::UNIX_EPOCH + Duration::from_secs(seconds)).into();
    log.push(at, &Arc::from(engine), &mut records);
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
    let log = Arc::new(Log::new(8, SystemTime::UNIX_EPOCH.into()));
    let mut events = log.subscribe(None);

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
    let log = Arc::new(Log::new(3, SystemTime::UNIX_EPOCH.into()));
    let mut events = log.subscribe(None);

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
    assert_eq!(log.ring.lock().moments.len(), 1);
    assert_eq!(
        all(&mut events),
        [
            "missed 3",
            "7 3 /c started, generation 7",
            "8 3 /c started, generation 8",
            "9 3 /c started, generation 9",
        ]
    );
}

#[tokio::test]
async fn all_who_wait_are_woken_each_time_and_at_the_end() {
    let log = Arc::new(Log::new(8, SystemTime::UNIX_EPOCH.into()));
    let (mut first, mut second) = (log.subscribe(None), log.subscribe(None));
    for round in 0..3 {
        let (one, two, ()) = tokio::join!(first.next(), second.next(), async {
            // Both wait by now.
            push(&log, 1, "/a", round..round + 1);
        });
        assert!(one.is_some() && two.is_some(), "in round {round}");
    }

    let (one, two, ()) = tokio::join!(first.next(), second.next(), async { log.close() });
    assert!(one.is_none() && two.is_none());
}

#[tokio::test]
async fn who_waits_is_woken_whoever_else_follows() {
    let log = Arc::new(Log::new(2, SystemTime::UNIX_EPOCH.into()));
    let (mut waiting, mut looking) = (log.subscribe(None), log.subscribe(None));
    let (one, ()) = tokio::join!(waiting.next(), async {
        // Who only looks takes nobody's turn, nor does one that waits no more.
        assert!(looking.try_next().is_none());
        let mut gone = log.subscribe(None);
        tokio::select! {
            biased;
            _ = gone.next() => panic!("there is an event"),
            () = std::future::ready(()) => {}
        }
        assert!(looking.try_next().is_none());
        push(&log, 1, "/a", 0..1);
    });
    assert!(one.is_some());

    push(&log, 2, "/a", 1..5);
    assert!(matches!(waiting.next().await, Some(Notice::Missed(2))));
    assert!(waiting.try_next().is_some() && waiting.try_next().is_some());
    drop(looking);
    for round in 5..8 {
        let (one, ()) =
            tokio::join!(waiting.next(), async { push(&log, 3, "/a", round..round + 1) });
        assert!(one.is_some(), "alone, in round {round}");
    }
}
