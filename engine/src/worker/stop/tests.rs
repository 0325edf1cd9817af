//! The tasks that a stop or a lost input wakes, and the moment when a worker counts as gone.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Wake, Waker};

use super::Stop;

#[tokio::test]
async fn every_clone_is_told() {
    let (stopper, stop) = Stop::pair();
    let clone = stop.clone();
    stopper.stop();
    stop.wait().await;
    clone.wait().await;
    assert!(clone.is_stopped() && !clone.is_input_lost());
}

#[test]
fn a_worker_that_blocks_is_named_once_in_each_poll() {
    let (stopper, stop) = Stop::pair();
    let named = || [stopper.is_named_first(), stopper.is_named_first()];
    assert_eq!((stopper.polled_for(), named()), (None, [false, false]));

    stop.begin_poll();
    let (first, is_polled) = (named(), stopper.polled_for().is_some());
    stop.end_poll();
    stop.begin_poll();

    assert_eq!((first, is_polled, named()), ([true, false], true, [true, false]));
}

#[tokio::test]
#[expect(clippy::disallowed_methods, reason = "the test waits for the task's end")]
async fn a_waiter_that_waits_first_is_woken() {
    let (stopper, stop) = Stop::pair();
    let mut wait = tokio::spawn(async move { stop.wait().await });
    assert!(futures_pending(&mut wait).await);
    stopper.stop();
    wait.await.unwrap();
}

#[test]
fn what_waits_for_the_end_of_what_lingers_is_run_in_order() {
    let (_stopper, stop) = Stop::pair();
    let order = Arc::new(parking_lot::Mutex::new(Vec::new()));
    let (first, second) = (stop.linger(), stop.linger());
    for number in [1, 2] {
        let order = Arc::clone(&order);
        stop.once_gone(move || order.lock().push(number));
    }
    drop(first);
    assert!(order.lock().is_empty());
    drop(second);
    assert_eq!(*order.lock(), [1, 2]);
}

#[test]
fn a_left_worker_is_gone_when_it_has_ended_and_nothing_lingers() {
    let (stopper, stop) = Stop::pair();
    let left = stopper.to_left_worker("/a".to_owned());
    let is_gone = || left.is_gone(drop);

    let lingering = stop.linger();
    let before = is_gone();
    stop.set_ended();
    let ended = is_gone();
    drop(lingering);

    assert_eq!((before, ended, is_gone()), (false, false, true));
}

#[test]
fn a_left_worker_is_gone_when_nothing_holds_its_cell() {
    let (stopper, stop) = Stop::pair();
    let left = stopper.to_left_worker("/a".to_owned());
    drop(stopper);
    let before = left.is_gone(drop);
    drop(stop);

    assert_eq!((before, left.is_gone(drop)), (false, true));
}

#[test]
fn all_who_wait_are_woken_and_only_those() {
    let (stopper, stop) = Stop::pair();
    let mut waits: Vec<_> = (0..4).map(|_| (Box::pin(stop.wait()), Wakes::new())).collect();
    for (wait, wakes) in &mut waits {
        assert!(wakes.poll(wait).is_pending());
    }
    let (given_up, silent) = waits.remove(1);
    drop(given_up);

    stopper.stop();

    assert_eq!(silent.count(), 0);
    for (wait, wakes) in &mut waits {
        assert_eq!(wakes.count(), 1);
        assert!(wakes.poll(wait).is_ready());
    }
}

#[test]
fn who_waits_for_the_stop_is_still_woken_after_a_lost_input() {
    let (stopper, stop) = Stop::pair();
    let mut waits = [stop.wait(), stop.wait()].map(Box::pin);
    let wakes = Wakes::new();
    for wait in &mut waits {
        assert!(wakes.poll(wait).is_pending());
    }

    stopper.lose_input();
    let mut comes_between = Box::pin(stop.wait());
    assert!(wakes.poll(&mut comes_between).is_pending());
    for wait in &mut waits {
        assert!(wakes.poll(wait).is_pending());
    }
    let before = wakes.count();
    stopper.stop();

    assert_eq!(wakes.count() - before, 3);
}

#[test]
fn who_is_polled_by_another_is_woken_there() {
    let (stopper, stop) = Stop::pair();
    let (former, latter) = (Wakes::new(), Wakes::new());
    let mut wait = Box::pin(stop.wait());
    assert!(former.poll(&mut wait).is_pending());
    assert!(latter.poll(&mut wait).is_pending());

    stopper.stop();

    assert_eq!((former.count(), latter.count()), (0, 1));
}

#[test]
fn those_who_wait_no_longer_leave_nothing_behind() {
    let (_stopper, stop) = Stop::pair();
    let wakes = Wakes::new();
    let mut stays = Box::pin(stop.wait());
    assert!(wakes.poll(&mut stays).is_pending());

    for _ in 0..1_000 {
        let mut waits = [stop.wait(), stop.wait()].map(Box::pin);
        for wait in &mut waits {
            assert!(wakes.poll(wait).is_pending());
        }
    }

    assert_eq!(stop.cell.state.lock().waiters.len(), 1);
}

#[test]
fn those_who_wait_for_a_lost_input_after_the_stop_leave_nothing_behind() {
    let (stopper, stop) = Stop::pair();
    let wakes = Wakes::new();
    stopper.stop();

    for _ in 0..1_000 {
        let mut waits = [stop.only_input_lost(), stop.only_input_lost()].map(Box::pin);
        for wait in &mut waits {
            assert!(wakes.poll(wait).is_pending());
        }
    }

    assert_eq!(stop.cell.state.lock().waiters.len(), 0);
}

#[test]
fn who_waits_for_a_lost_input_alone_is_told_of_it_and_not_of_the_stop() {
    let (stopper, stop) = Stop::pair();
    let (before, after) = (Wakes::new(), Wakes::new());
    let mut waits_before = Box::pin(stop.only_input_lost());
    assert!(before.poll(&mut waits_before).is_pending());
    stopper.stop();
    let mut waits_after = Box::pin(stop.only_input_lost());
    assert!(before.poll(&mut waits_before).is_pending());
    assert!(after.poll(&mut waits_after).is_pending());
    let woken = before.count();

    stopper.lose_input();

    assert_eq!((before.count() - woken, after.count()), (1, 1));
    assert!(before.poll(&mut waits_before).is_ready());
    assert!(after.poll(&mut waits_after).is_ready());
}

#[test]
fn a_stop_that_is_told_while_one_begins_to_wait_is_not_missed() {
    const ROUNDS: usize = 200_000;
    let pairs: Vec<_> = (0..ROUNDS).map(|_| Stop::pair()).collect();
    let begun = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for (round, (_, stop)) in pairs.iter().enumerate() {
                begun.store(round + 1, Ordering::Release);
                stop.wait_blocking();
            }
        });
        for (round, (stopper, _)) in pairs.iter().enumerate() {
            while begun.load(Ordering::Acquire) <= round {
                std::thread::yield_now();
            }
            // At another moment of the wait each time.
            (0..round % 64).for_each(|_| std::hint::spin_loop());
            stopper.stop();
        }
    });
}

#[test]
fn wakers_are_woken_and_dropped_outside_the_lock() {
    let (stopper, stop) = Stop::pair();
    let poll = |wait: Pin<&mut _>| {
        let waker = Waker::from(Arc::new(Locking(stop.clone())));
        Future::poll(wait, &mut Context::from_waker(&waker))
    };
    let mut waits = [stop.wait(), stop.wait(), stop.wait()].map(Box::pin);
    for wait in &mut waits {
        assert!(poll(wait.as_mut()).is_pending());
        // The waker from before is dropped.
        assert!(poll(wait.as_mut()).is_pending());
    }
    let [first, other, given_up] = waits;

    drop(given_up);
    stopper.lose_input();
    stopper.stop();

    drop((first, other));
}

#[test]
fn a_waker_that_panics_keeps_nobody_else_from_being_woken() {
    let (stopper, stop) = Stop::pair();
    let waker = Waker::from(Arc::new(Panics));
    let mut bad = [stop.wait(), stop.wait()].map(Box::pin);
    for wait in &mut bad {
        assert!(wait.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
    }
    let (mut wait, wakes) = (Box::pin(stop.wait()), Wakes::new());
    assert!(wakes.poll(&mut wait).is_pending());

    stopper.stop();

    assert_eq!(wakes.count(), 1);
}

#[tokio::test]
async fn a_lost_input_is_not_a_stop() {
    let (stopper, stop) = Stop::pair();
    stopper.lose_input();
    stop.input_lost().await;
    assert!(!stop.is_stopped());
}

/// Asks for the lock when it is woken and when it is dropped.
struct Locking(Stop);

impl Wake for Locking {
    fn wake(self: Arc<Self>) {
        drop(self.0.linger());
    }
}

impl Drop for Locking {
    fn drop(&mut self) {
        drop(self.0.linger());
    }
}

/// Panics when it is woken.
struct Panics;

impl Wake for Panics {
    fn wake(self: Arc<Self>) {
        panic!("woken");
    }
}

/// Counts how often it is woken.
struct Wakes(Arc<AtomicUsize>);

struct Counted(Arc<AtomicUsize>);

impl Wake for Counted {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

impl Wakes {
    fn new() -> Self {
        Self(Arc::default())
    }

    fn count(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }

    fn poll<F: Future>(&self, future: &mut Pin<Box<F>>) -> Poll<F::Output> {
        let waker = Waker::from(Arc::new(Counted(Arc::clone(&self.0))));
        future.as_mut().poll(&mut Context::from_waker(&waker))
    }
}

/// Polls once and returns whether the future is pending.
async fn futures_pending<F: Future + Unpin>(future: &mut F) -> bool {
    tokio::select! {
        biased;
        _ = future => false,
        () = tokio::task::yield_now() => true,
    }
}
