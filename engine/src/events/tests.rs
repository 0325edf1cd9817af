use std::sync::Arc;
use std::time::{Duration, SystemTime};

use super::{Events, Log, Notice, Record};
use crate::event::EventKind;

/// Enters events of an engine that are told apart by their generations.
fn push(log: &Log, seconds: u64, engine: &str, generations: std::ops::Range<u32>) {
    let mut records = Vec::new();
    for generation in generations {
        Record::push(&mut records, EventKind::Started { generation }, None, None);
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
    assert_eq!(log.ring.lock().kept.moments.len(), 1);
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

#[test]
fn who_follows_alone_is_given_what_is_not_kept_any_longer() {
    let log = Arc::new(Log::new(8));
    let mut events = log.subscribe();

    push(&log, 1, "/a", 0..2);
    push(&log, 2, "/b", 2..3);
    let told = || events.try_next();
    assert_eq!(std::iter::from_fn(told).take(2).count(), 2);
    assert_eq!(log.ring.lock().kept.records.len(), 0);

    push(&log, 3, "/a", 3..4);
    let expected = ["2 2 /b started, generation 2", "3 3 /a started, generation 3"];
    assert_eq!(all(&mut events), expected);
    push(&log, 4, "/a", 4..14);
    let told = all(&mut events);
    assert_eq!(told[..2], ["missed 2", "6 4 /a started, generation 6"]);
    assert_eq!(told.len(), 9);
}

#[test]
fn who_lags_alone_is_told_where_events_are_missed() {
    let log = Arc::new(Log::new(8));
    let mut events = log.subscribe();
    push(&log, 1, "/a", 0..8);
    assert!(events.try_next().is_some());

    push(&log, 2, "/b", 8..28);

    let told = all(&mut events);
    assert_eq!(told.len(), 7 + 1 + 8);
    assert_eq!(
        told[6..9],
        ["7 1 /a started, generation 7", "missed 12", "20 2 /b started, generation 20",]
    );
}

#[test]
fn what_was_taken_is_given_before_what_another_one_came_for() {
    let log = Arc::new(Log::new(8));
    let mut first = log.subscribe();
    push(&log, 1, "/a", 0..3);
    assert!(first.try_next().is_some());
    let mut second = log.subscribe();
    push(&log, 2, "/b", 3..4);

    let last = "3 2 /b started, generation 3";
    assert_eq!(all(&mut second), [last]);
    let told = all(&mut first);
    assert_eq!((told.len(), told[2].as_str()), (3, last));
    log.close();
    assert_eq!(all(&mut first).len(), 0);
}

#[test]
fn nobody_is_given_what_another_one_waits_for() {
    let log = Arc::new(Log::new(8));
    let mut first = log.subscribe();
    push(&log, 1, "/a", 0..2);
    let mut second = log.subscribe();
    push(&log, 2, "/b", 2..4);

    let expected = ["2 2 /b started, generation 2", "3 2 /b started, generation 3"];
    assert_eq!(all(&mut second), expected);
    assert_eq!(all(&mut first).len(), 4);
    push(&log, 3, "/a", 4..6);
    assert_eq!(all(&mut first).len(), 2);
    drop(first);
    push(&log, 4, "/b", 6..7);

    // What is left of before is in the way of nothing.
    assert_eq!(all(&mut second).len(), 3);
    assert_eq!(log.ring.lock().kept.records.len(), 0);
}

#[test]
fn what_nobody_asked_for_is_passed_over_by_who_is_left() {
    let log = Arc::new(Log::new(8));
    let first = log.subscribe();
    push(&log, 1, "/a", 0..2);
    let mut second = log.subscribe();
    drop(first);

    assert_eq!(all(&mut second).len(), 0);
    push(&log, 2, "/b", 2..3);

    assert_eq!(all(&mut second), ["2 2 /b started, generation 2"]);
}

#[tokio::test]
async fn all_who_wait_are_woken_each_time_and_at_the_end() {
    let log = Arc::new(Log::new(8));
    let (mut first, mut second) = (log.subscribe(), log.subscribe());
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
    let log = Arc::new(Log::new(2));
    let (mut waiting, mut looking) = (log.subscribe(), log.subscribe());
    let (one, ()) = tokio::join!(waiting.next(), async {
        // Who only looks takes nobody's turn, nor does one that waits no more.
        assert!(looking.try_next().is_none());
        let mut gone = log.subscribe();
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
