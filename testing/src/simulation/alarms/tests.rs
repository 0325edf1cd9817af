//! The moments at which the alarms of a simulation wake tasks.

use std::sync::Arc;
use std::task::{Wake, Waker};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::{Instant, sleep};

use super::{Alarms, STEP};

/// Notes when it is woken, with its name.
struct Noted {
    which: &'static str,
    began: Instant,
    woken: Arc<Mutex<Vec<(&'static str, u128)>>>,
}

impl Wake for Noted {
    fn wake(self: Arc<Self>) {
        self.woken.lock().push((self.which, self.began.elapsed().as_millis()));
    }
}

struct Bench {
    alarms: Alarms,
    began: Instant,
    woken: Arc<Mutex<Vec<(&'static str, u128)>>>,
}

impl Bench {
    fn new() -> Self {
        Self { alarms: Alarms::new(), began: Instant::now(), woken: Arc::default() }
    }

    fn set(&self, which: &'static str, after: u64) -> super::Alarm {
        let noted = Noted { which, began: self.began, woken: Arc::clone(&self.woken) };
        self.alarms.set(Duration::from_millis(after), &Waker::from(Arc::new(noted)))
    }

    async fn pass(&self, time: u64) -> Vec<(&'static str, u128)> {
        self.alarms.during(sleep(Duration::from_millis(time))).await;
        std::mem::take(&mut self.woken.lock())
    }
}

#[tokio::test(start_paused = true)]
async fn all_are_woken_at_their_moments_and_in_their_order() {
    let bench = Bench::new();
    bench.set("late", 20 * STEP);
    bench.set("second", 10 * STEP);
    bench.set("third", 10 * STEP);
    bench.set("first", 3);

    assert_eq!(
        bench.pass(30 * STEP).await,
        [("first", 3), ("second", 640), ("third", 640), ("late", 1280)]
    );
    // An alarm that is set when no task waits any more.
    bench.set("again", STEP);
    assert_eq!(bench.pass(2 * STEP).await, [("again", 1984)]);
}

#[tokio::test(start_paused = true)]
async fn nobody_is_woken_later_than_asked_nor_long_before() {
    let bench = Bench::new();
    bench.pass(10).await;
    for after in [0, 1, STEP - 1, STEP, STEP + 1, 5000] {
        let now = bench.began.elapsed().as_millis();
        let alarm = bench.set("it", after);
        assert!(!bench.alarms.is_due(alarm) || after == 0);

        let [(_, at)] = bench.pass(after + 2).await[..] else { panic!("it is woken once") };
        assert!(bench.alarms.is_due(alarm));
        assert!(at <= now + u128::from(after), "{at} is late for {after} after {now}");
        assert!(at + u128::from(STEP) > now + u128::from(after), "{at} is early for {after}");
    }
}

#[tokio::test(start_paused = true)]
async fn who_gave_up_is_not_woken_and_the_others_are() {
    let bench = Bench::new();
    let first = bench.set("first", STEP);
    bench.set("second", 2 * STEP);

    let beside = bench.set("beside", 2 * STEP);

    bench.alarms.cancel(first);
    bench.alarms.cancel(beside);

    assert_eq!(bench.pass(5 * STEP).await, [("second", 128)]);
    bench.alarms.cancel(first);
    assert_eq!(bench.pass(5 * STEP).await, []);
}

#[tokio::test(start_paused = true)]
async fn one_that_is_set_meanwhile_and_comes_sooner_is_not_late() {
    let bench = Bench::new();
    bench.set("late", 20 * STEP);

    let work = async {
        sleep(Duration::from_millis(STEP)).await;
        bench.set("sooner", STEP);
        sleep(Duration::from_millis(30 * STEP)).await;
    };
    bench.alarms.during(work).await;

    assert_eq!(*bench.woken.lock(), [("sooner", 128), ("late", 1280)]);
}

#[tokio::test(start_paused = true)]
async fn what_is_due_comes_when_the_clock_jumps() {
    let bench = Bench::new();
    let alarm = bench.set("it", 10 * STEP);

    bench.alarms.during(tokio::time::advance(Duration::from_secs(1))).await;

    assert_eq!(*bench.woken.lock(), [("it", 1000)]);
    assert!(bench.alarms.is_due(alarm));
}
