//! Beats under a paused clock: no time passes but where a test says so.

use std::sync::Barrier;
use std::thread;
use std::time::Duration;

use crankcase_engine::{Exit, Outcome};
use crankcase_workers::{Heartbeat, HeartbeatConfig};
use tokio::task::yield_now;
use tokio::time::{Instant, advance, sleep};

use crate::running::{Running, TestResult};

const WITHIN: Duration = Duration::from_secs(10);

fn heartbeat() -> Result<Heartbeat, crankcase_engine::ConfigError> {
    Heartbeat::new(HeartbeatConfig::new(WITHIN))
}

fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn is_bounce(outcome: &Outcome) -> bool {
    matches!(outcome, Err(Exit::Bounce))
}

#[tokio::test(start_paused = true)]
async fn a_member_that_falls_silent_means_a_bounce_and_is_named() -> TestResult {
    let heartbeat = heartbeat()?;
    let (pulse, status) = (heartbeat.pulse(), heartbeat.status());
    let (lively, silent) = (pulse.join("lively"), pulse.join("silent"));
    let began = Instant::now();
    let mut worker = Running::start(heartbeat);
    sleep(seconds(4)).await;
    silent.beat();
    sleep(seconds(5)).await;
    lively.beat();

    let outcome = worker.end().await;

    assert!(is_bounce(&outcome), "{outcome:?}");
    assert_eq!(began.elapsed(), seconds(14));
    let status = status.borrow().clone();
    assert_eq!((status.missed, status.last_missed.as_deref()), (1, Some("silent")));
    assert_eq!(status.members, 2);
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn members_that_beat_are_never_silent() -> TestResult {
    let heartbeat = heartbeat()?;
    let beat = heartbeat.pulse().join("lively");
    let worker = Running::start(heartbeat);

    for _ in 0..100 {
        sleep(seconds(9)).await;
        beat.beat();
    }

    Ok(worker.clean_kill().await.map_err(|exit| exit.to_string())?)
}

#[tokio::test(start_paused = true)]
async fn without_members_nothing_is_missed_and_one_that_joins_late_counts() -> TestResult {
    let heartbeat = heartbeat()?;
    let pulse = heartbeat.pulse();
    let began = Instant::now();
    let mut worker = Running::start(heartbeat);
    sleep(seconds(1000)).await;
    drop(pulse.join("gone"));
    sleep(seconds(1000)).await;

    let _silent = pulse.join("silent");

    assert!(is_bounce(&worker.end().await));
    assert_eq!(began.elapsed(), seconds(2010));
    Ok(())
}

/// Has one member that beats each second, and lets it fall silent when everything is held up after
/// `phase`; returns how long the heartbeat bears with it from then on.
async fn borne(
    phase: Duration,
    held_up: Duration,
) -> Result<Duration, crankcase_engine::ConfigError> {
    let heartbeat = heartbeat()?;
    let beat = heartbeat.pulse().join("silent");
    let mut worker = Running::start(heartbeat);
    yield_now().await;
    let began = Instant::now();
    while began.elapsed() < phase {
        sleep(seconds(1).min(phase - began.elapsed())).await;
        beat.beat();
    }

    advance(held_up).await;

    assert!(is_bounce(&worker.end().await));
    Ok(began.elapsed() - phase)
}

#[tokio::test(start_paused = true)]
async fn after_a_hold_up_of_more_than_half_an_interval_all_have_one_more() -> TestResult {
    for held_up in [5.1, 6.0, 7.5, 9.9, 10.0, 11.0, 14.0, 15.0, 16.0, 26.0, 3600.0] {
        for phase in [0.0, 1.0, 2.4, 2.5, 2.6, 4.9, 7.5, 9.0, 123.4] {
            let (phase, held_up) =
                (Duration::from_secs_f64(phase), Duration::from_secs_f64(held_up));

            let borne = borne(phase, held_up).await?;

            assert_eq!(borne, held_up + WITHIN, "held up for {held_up:?} after {phase:?}");
        }
    }
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_hold_up_of_at_most_a_quarter_of_an_interval_gives_nobody_more_time() -> TestResult {
    for phase in [0.0, 1.0, 2.4, 2.5, 2.6, 4.9, 7.5, 9.0, 123.4] {
        let borne = borne(Duration::from_secs_f64(phase), WITHIN / 4).await?;

        assert_eq!(borne, WITHIN, "held up after {phase} s");
    }
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn who_joins_in_a_hold_up_does_not_hide_it() -> TestResult {
    let heartbeat = heartbeat()?;
    let pulse = heartbeat.pulse();
    let _silent = pulse.join("silent");
    let began = Instant::now();
    let mut worker = Running::start(heartbeat);
    yield_now().await;

    // The worker is woken for who joins before it is for the time.
    let _joined = pulse.join("joined");
    advance(seconds(14)).await;

    assert!(is_bounce(&worker.end().await));
    assert_eq!(began.elapsed(), seconds(24));
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn who_joins_before_it_runs_counts_from_when_it_does() -> TestResult {
    let heartbeat = heartbeat()?;
    let _silent = heartbeat.pulse().join("silent");
    advance(seconds(11)).await;
    let began = Instant::now();

    assert!(is_bounce(&Running::start(heartbeat).end().await));

    assert_eq!(began.elapsed(), WITHIN);
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_worker_counts_on_where_the_one_before_has_ended() -> TestResult {
    let first = heartbeat()?;
    let (beat, status) = (first.pulse().join("first"), first.status());
    assert!(is_bounce(&Running::start(first).end().await));
    drop(beat);
    let second = heartbeat()?.counting_on(&status.borrow());
    let (_beat, status) = (second.pulse().join("second"), second.status());

    assert!(is_bounce(&Running::start(second).end().await));

    let status = status.borrow().clone();
    assert_eq!((status.missed, status.last_missed.as_deref()), (2, Some("second")));
    Ok(())
}

#[test]
fn an_interval_that_cannot_be_used_is_named_with_its_value() {
    let refused = Heartbeat::new(HeartbeatConfig::new(Duration::from_millis(99)));

    assert_eq!(
        refused.expect_err("it is too short").to_string(),
        "within is 99ms; expected between 100 ms and 24 h"
    );
}

#[test]
fn members_that_come_and_go_at_once_are_counted() -> TestResult {
    const ROUNDS: usize = 20_000;
    let heartbeat = heartbeat()?;
    let (pulse, status) = (heartbeat.pulse(), heartbeat.status());
    let together = Barrier::new(2);
    let round = |_| {
        together.wait();
        let beat = pulse.join("one of two");
        together.wait();
        let joined = status.borrow().members;
        together.wait();
        drop(beat);
        together.wait();
        (joined, status.borrow().members)
    };
    // Both threads see the same, and so end in the same round.
    let wrong = || (0..ROUNDS).map(round).find(|members| *members != (2, 0));

    let wrong = thread::scope(|scope| {
        let other = scope.spawn(wrong);
        (wrong(), other.join())
    });

    assert!(matches!(wrong, (None, Ok(None))), "{wrong:?}");
    Ok(())
}
