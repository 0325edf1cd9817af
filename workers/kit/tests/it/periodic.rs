//! Turns under a paused clock: no time passes but where a test says so.

use std::time::Duration;

use crankcase_engine::{ConfigError, Exit, Outcome};
use crankcase_workers::{FirstTurn, MissedTurns, Periodic, PeriodicConfig, PeriodicStats, Turn};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use tokio::sync::watch;
use tokio::time::{Instant, advance, sleep};

use crate::running::{Running, TestResult};

/// When a turn began after the worker, and what it was told.
#[derive(Debug, PartialEq, Eq)]
struct Begun {
    at: u64,
    number: u64,
    skipped: u64,
    late: u64,
}

fn begun(at: u64, number: u64, skipped: u64, late: u64) -> Begun {
    Begun { at, number, skipped, late }
}

/// A worker whose turns take as many milliseconds as `takes` says by their number.
struct Turning {
    turns: UnboundedReceiver<Begun>,
    stats: watch::Receiver<PeriodicStats>,
    worker: Running,
}

impl Turning {
    fn start(config: PeriodicConfig, takes: fn(u64) -> u64) -> Result<Self, ConfigError> {
        let (tx, turns) = unbounded_channel();
        let origin = Instant::now();
        let periodic = Periodic::new(config, move |turn: Turn| {
            let at = millis(origin.elapsed());
            let told = begun(at, turn.number, turn.skipped, millis(turn.late));
            let sent = tx.send(told);
            async move {
                sent?;
                sleep(Duration::from_millis(takes(turn.number))).await;
                Ok(())
            }
        })?;
        Ok(Self { turns, stats: periodic.stats(), worker: Running::start(periodic) })
    }

    async fn next(&mut self) -> Begun {
        self.turns.recv().await.expect("the worker has ended")
    }

    async fn end(self) -> TestResult {
        Ok(self.worker.clean_kill().await.map_err(|exit| exit.to_string())?)
    }
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// Ten milliseconds from turn to turn, without jitter.
fn every_ten() -> PeriodicConfig {
    PeriodicConfig::new(Duration::from_millis(10)).jitter(0.0)
}

#[tokio::test(start_paused = true)]
async fn turns_are_on_a_grid_whatever_the_work_takes() -> TestResult {
    let mut turning = Turning::start(every_ten(), |number| number % 3 * 4)?;

    for number in 0..6 {
        assert_eq!(turning.next().await, begun(number * 10, number, 0, 0));
    }
    turning.end().await
}

#[tokio::test(start_paused = true)]
async fn the_first_turn_can_be_an_interval_later() -> TestResult {
    let config = every_ten().first(FirstTurn::AfterInterval);
    let mut turning = Turning::start(config, |_| 0)?;

    assert_eq!(turning.next().await, begun(10, 0, 0, 0));
    assert_eq!(turning.next().await, begun(20, 1, 0, 0));
    turning.end().await
}

#[tokio::test(start_paused = true)]
async fn turns_that_became_due_during_the_work_are_skipped_and_counted() -> TestResult {
    let mut turning = Turning::start(every_ten(), |number| if number == 1 { 25 } else { 0 })?;

    assert_eq!(turning.next().await, begun(0, 0, 0, 0));
    assert_eq!(turning.next().await, begun(10, 1, 0, 0));
    assert_eq!(turning.next().await, begun(40, 4, 2, 0));
    assert_eq!(turning.next().await, begun(50, 5, 0, 0));
    assert_eq!(turning.stats.borrow().skipped, 2);
    turning.end().await
}

#[tokio::test(start_paused = true)]
async fn a_turn_that_is_due_when_the_work_ends_is_not_missed() -> TestResult {
    let mut turning = Turning::start(every_ten(), |_| 10)?;

    for number in 0..4 {
        assert_eq!(turning.next().await, begun(number * 10, number, 0, 0));
    }
    turning.end().await
}

#[tokio::test(start_paused = true)]
async fn missed_turns_are_made_up_for_without_overlapping() -> TestResult {
    let config = every_ten().missed(MissedTurns::CatchUp { most: 10 });
    let mut turning = Turning::start(config, |number| if number == 0 { 35 } else { 4 })?;

    assert_eq!(turning.next().await, begun(0, 0, 0, 0));
    assert_eq!(turning.next().await, begun(35, 1, 0, 25));
    assert_eq!(turning.next().await, begun(39, 2, 0, 19));
    assert_eq!(turning.next().await, begun(43, 3, 0, 13));
    assert_eq!(turning.next().await, begun(47, 4, 0, 7));
    assert_eq!(turning.next().await, begun(51, 5, 0, 1));
    assert_eq!(turning.next().await, begun(60, 6, 0, 0));
    turning.end().await
}

#[tokio::test(start_paused = true)]
async fn no_more_turns_are_made_up_for_than_is_allowed() -> TestResult {
    let config = every_ten().missed(MissedTurns::CatchUp { most: 2 });
    let mut turning = Turning::start(config, |number| if number == 0 { 95 } else { 0 })?;

    assert_eq!(turning.next().await, begun(0, 0, 0, 0));
    assert_eq!(turning.next().await, begun(95, 7, 6, 25));
    assert_eq!(turning.next().await, begun(95, 8, 0, 15));
    assert_eq!(turning.next().await, begun(95, 9, 0, 5));
    assert_eq!(turning.next().await, begun(100, 10, 0, 0));
    turning.end().await
}

#[tokio::test(start_paused = true)]
async fn a_clock_that_jumps_while_it_waits_costs_all_turns_but_the_last() -> TestResult {
    let mut turning = Turning::start(every_ten(), |_| 0)?;
    assert_eq!(turning.next().await, begun(0, 0, 0, 0));
    // The worker is to wait for its next turn by then.
    sleep(Duration::from_millis(5)).await;

    advance(Duration::from_millis(3_600_000)).await;

    assert_eq!(turning.next().await, begun(3_600_005, 360_000, 359_999, 5));
    assert_eq!(turning.next().await, begun(3_600_010, 360_001, 0, 0));
    turning.end().await
}

#[tokio::test(start_paused = true)]
async fn jitter_puts_each_turn_off_within_its_bound_and_moves_no_later_one() -> TestResult {
    let config = every_ten().every(Duration::from_secs(10)).jitter(0.5).seed(7);
    let mut turning = Turning::start(config.clone(), |_| 0)?;
    let mut again = Turning::start(config, |_| 0)?;
    let mut put_off = Vec::new();

    for number in 0..50 {
        let turn = turning.next().await;
        assert_eq!(turn, again.next().await);
        assert_eq!((turn.number, turn.skipped, turn.at), (number, 0, number * 10_000 + turn.late));
        put_off.push(turn.late);
    }
    // The timer of the clock goes by whole milliseconds, and is never early.
    assert!(put_off.iter().all(|late| *late <= 5_001), "{put_off:?}");
    assert!(put_off.iter().any(|late| *late < 1_000), "{put_off:?}");
    assert!(put_off.iter().any(|late| *late > 4_000), "{put_off:?}");
    turning.end().await?;
    again.end().await
}

#[tokio::test(start_paused = true)]
async fn an_error_of_the_work_ends_the_worker_with_it() -> TestResult {
    let periodic = Periodic::new(every_ten(), |turn: Turn| async move {
        if turn.number < 2 { Ok(()) } else { Err(Exit::failed("the third turn hurt")) }
    })?;
    let stats = periodic.stats();

    let outcome = Running::start(periodic).end().await;

    assert_eq!(text_of(outcome), "the third turn hurt");
    assert_eq!((stats.borrow().done, stats.borrow().is_busy), (3, false));
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn told_to_stop_it_ends_with_the_turn_that_is_being_done() -> TestResult {
    let (begun, mut began) = unbounded_channel();
    let periodic = Periodic::new(every_ten(), move |turn: Turn| {
        let begun = begun.clone();
        async move {
            begun.send(())?;
            turn.stop.wait().await;
            sleep(Duration::from_millis(50)).await;
            Ok(())
        }
    })?;
    let stats = periodic.stats();
    let worker = Running::start(periodic);
    began.recv().await.ok_or("it has ended")?;

    worker.clean_kill().await.map_err(|exit| exit.to_string())?;

    assert_eq!(stats.borrow().done, 1);
    assert!(began.recv().await.is_none(), "another turn was begun");
    Ok(())
}

#[test]
fn a_field_that_cannot_be_used_is_named_with_its_value() {
    let too_often = every_ten().every(Duration::ZERO);
    let wide = every_ten().jitter(0.6);
    let none = every_ten().missed(MissedTurns::CatchUp { most: 0 });

    let texts = [too_often, wide, none].map(|config| {
        let refused = Periodic::new(config, |_turn| async { Ok(()) });
        refused.map_or_else(|err| err.to_string(), |_| String::new())
    });

    assert_eq!(
        texts,
        [
            "every is 0ns; expected between 1 ms and 366 days",
            "jitter is 0.6; expected a fraction from 0 to 0.5",
            "missed.most is 0; expected at least 1",
        ]
    );
}

fn text_of(outcome: Outcome) -> String {
    outcome.map_or_else(|exit| exit.to_string(), |()| String::new())
}
