//! The cell that a worker has in common with its engine: which worker it is, and the small signs
//! they give each other; above all, the stop.
//!
//! It is one small allocation, so that a hundred thousand idle workers cost little.
//!
//! Invariants:
//! 1. A flag is only ever set, and is set before those who wait are woken.
//! 2. `STARTED` and `STOPPED` are set by read-modify-write on one byte, so of a start that ends
//!    and a stop that comes at the same moment each sees which was first.
//! 3. A worker's end is told only when none of its lingering parts is left.
//! 4. No foreign code runs under the lock, and nothing of users' is dropped there.

mod waiters;

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::Thread;

use parking_lot::Mutex;

use crate::context::Identity;
use crate::exit::Panicked;
use waiters::{Place, Waiters};

const STOPPED: u8 = 1;
const LOST: u8 = 2;
const STARTED: u8 = 4;

#[derive(Default)]
struct Cell {
    flags: AtomicU8,
    state: Mutex<State>,
    /// None for a worker without an engine.
    identity: Option<Identity>,
}

#[derive(Default)]
struct State {
    waiters: Waiters,
    rare: Option<Box<Rare>>,
}

/// What few workers have.
#[derive(Default)]
struct Rare {
    /// How many parts of the worker outlive its future.
    parts: usize,
    /// What is to happen once they are gone, in this order.
    at_end: Vec<Box<dyn FnOnce() + Send>>,
    /// They are waited for no longer.
    is_let_go: bool,
    /// Why the worker is degraded, or that it is not, until the engine takes it.
    health: Option<Option<String>>,
}

impl Cell {
    fn has(&self, flags: u8) -> bool {
        self.flags.load(Ordering::Acquire) & flags != 0
    }

    /// Sets `flag` and returns the flags from before.
    fn raise(&self, flag: u8) -> u8 {
        let before = self.flags.fetch_or(flag, Ordering::AcqRel);
        if before & flag == 0 {
            // Who looks at the flags under the lock sees this one, or is among the waiters.
            let woken = self.state.lock().waiters.take();
            woken.wake();
        }
        before
    }

    fn wait_for(&self, flags: u8) -> Wait<'_> {
        Wait { cell: self, flags, place: None }
    }
}

/// Waits until one of some flags is set.
struct Wait<'a> {
    cell: &'a Cell,
    flags: u8,
    place: Option<Place>,
}

impl Future for Wait<'_> {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let Self { cell, flags, place } = &mut *self;
        if cell.has(*flags) {
            return Poll::Ready(());
        }
        let is_known =
            place.is_some_and(|place| cell.state.lock().waiters.is_in(place, cx.waker()));
        if is_known {
            // A flag that is set from now on finds the waker.
            return if cell.has(*flags) { Poll::Ready(()) } else { Poll::Pending };
        }
        let waker = cx.waker().clone();
        let mut state = cell.state.lock();
        if cell.has(*flags) {
            drop(state);
            return Poll::Ready(());
        }
        let before = match place {
            Some(place) => state.waiters.put(*place, waker),
            None => {
                *place = Some(state.waiters.add(waker));
                None
            }
        };
        drop(state);
        drop(before);
        Poll::Pending
    }
}

impl Drop for Wait<'_> {
    fn drop(&mut self) {
        // After a stop nobody comes to wait any more, and no place is given again.
        if let Some(place) = self.place
            && !self.cell.has(STOPPED)
        {
            let waker = self.cell.state.lock().waiters.remove(place);
            drop(waker);
        }
    }
}

/// A worker's view of the request to stop.
///
/// It is cheap to clone; every clone is told at the same moment.
///
/// # Examples
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() {
/// use crankcase_engine::Stop;
///
/// let (stopper, stop) = Stop::pair();
/// assert!(!stop.is_stopped());
/// stopper.stop();
/// stop.wait().await;
/// # }
/// ```
#[derive(Clone)]
pub struct Stop {
    cell: Arc<Cell>,
}

impl Stop {
    /// Returns a stop with the handle that tells it, to run a worker without an engine.
    pub fn pair() -> (Stopper, Self) {
        Self::pair_of(None)
    }

    /// Returns the stop of a worker of an engine, with the handle that tells it.
    pub(crate) fn of(identity: Identity) -> (Stopper, Self) {
        Self::pair_of(Some(identity))
    }

    fn pair_of(identity: Option<Identity>) -> (Stopper, Self) {
        let cell = Arc::new(Cell { identity, ..Cell::default() });
        (Stopper { cell: Arc::clone(&cell) }, Self { cell })
    }

    /// Returns which worker it is.
    ///
    /// # Panics
    ///
    /// When it is none of an engine's.
    pub(crate) fn identity(&self) -> &Identity {
        self.cell.identity.as_ref().expect("it is the stop of a worker of an engine")
    }

    /// Waits until the worker is told to stop.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: a stop that was told stays told.
    pub fn wait(&self) -> impl Future<Output = ()> + Send {
        self.cell.wait_for(STOPPED)
    }

    /// Returns whether the worker has been told to stop.
    pub fn is_stopped(&self) -> bool {
        self.cell.has(STOPPED)
    }

    /// Blocks the thread until the worker is told to stop.
    ///
    /// It is for blocking workers, which have a thread of their own.
    pub fn wait_blocking(&self) {
        let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
        let mut context = Context::from_waker(&waker);
        let mut wait = pin!(self.wait());
        while wait.as_mut().poll(&mut context) == Poll::Pending {
            std::thread::park();
        }
    }

    /// Runs short blocking work on a thread for such work.
    ///
    /// The worker does not count as ended while the work goes on, also if its future was dropped.
    ///
    /// # Errors
    ///
    /// When the work panics: [`Panicked`] with its message.
    ///
    /// # Cancel safety
    ///
    /// Cancelling stops waiting for the work, not the work.
    pub async fn blocking<T, F>(&self, work: F) -> Result<T, Panicked>
    where
        T: Send + 'static,
        F: FnOnce() -> T + Send + 'static,
    {
        let linger = self.linger();
        let task = tokio::task::spawn_blocking(move || {
            let result = catch_unwind(AssertUnwindSafe(work));
            // In this order: what nobody waits for any more is dropped before the worker has ended.
            (result, linger)
        });
        match task.await {
            Ok((result, _linger)) => result.map_err(Panicked::from_payload),
            Err(error) => Err(Panicked::from_payload(Box::new(error.to_string()))),
        }
    }

    /// Keeps the worker from counting as ended while the returned guard lives.
    ///
    /// It is for what outlives the worker's future, such as tasks of its own that end a moment after
    /// it was dropped: the worker is not started again before they have.
    pub fn linger(&self) -> Linger {
        self.cell.state.lock().rare.get_or_insert_default().parts += 1;
        Linger { cell: Arc::clone(&self.cell) }
    }

    /// Runs `at_end` when nothing lingers any more, which may be at once.
    ///
    /// It is for those who run workers of their own: call it once the worker's future has been
    /// dropped. What it is called with by several is run in the same order.
    pub fn once_gone(&self, at_end: impl FnOnce() + Send + 'static) {
        let mut state = self.cell.state.lock();
        match state.rare.as_deref_mut() {
            Some(rare) if rare.parts > 0 && !rare.is_let_go => rare.at_end.push(Box::new(at_end)),
            _ => {
                drop(state);
                at_end();
            }
        }
    }

    /// Returns whether something lingers that the worker's end waits for.
    pub(crate) fn lingers(&self) -> bool {
        let state = self.cell.state.lock();
        state.rare.as_ref().is_some_and(|rare| rare.parts > 0 && !rare.is_let_go)
    }

    /// Has the worker's end be told as soon as its future has ended, whatever lingers.
    pub(crate) fn let_go(&self) {
        self.cell.state.lock().rare.get_or_insert_default().is_let_go = true;
    }

    /// Leaves how well the worker runs for the engine to take; returns whether nothing was waiting
    /// to be taken, so that the engine is to be told.
    pub(crate) fn put_health(&self, degraded: Option<String>) -> bool {
        let before = self.cell.state.lock().rare.get_or_insert_default().health.replace(degraded);
        before.is_none()
    }

    /// Says that the start has come to its end; returns whether the stop had been told before.
    pub(crate) fn start_ended(&self) -> bool {
        // Nobody waits for this flag.
        self.cell.flags.fetch_or(STARTED, Ordering::AcqRel) & STOPPED != 0
    }

    /// Tells the worker to stop on its own account: the engine has not asked for it.
    pub(crate) fn give_up(&self) {
        self.cell.raise(STOPPED);
    }

    /// Waits until an input has ended by itself, or the worker is told to stop.
    ///
    /// A lost input's worker is gone already; the stop follows as soon as this worker's own
    /// dependents have ended. Use it to give up early what needs the input.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe.
    pub fn input_lost(&self) -> impl Future<Output = ()> + Send {
        self.cell.wait_for(LOST | STOPPED)
    }

    /// Returns whether an input that the worker was started with has ended by itself.
    pub fn is_input_lost(&self) -> bool {
        self.cell.has(LOST)
    }
}

/// A part of a worker that outlives its future; made by [`Stop::linger`].
#[must_use = "the worker may count as ended when this is dropped"]
pub struct Linger {
    cell: Arc<Cell>,
}

impl Drop for Linger {
    fn drop(&mut self) {
        let mut state = self.cell.state.lock();
        let Some(left) = state.rare.as_deref_mut() else { return };
        left.parts -= 1;
        if left.parts == 0 {
            let at_end = std::mem::take(&mut left.at_end);
            drop(state);
            for at_end in at_end {
                // Foreign code, and the next may be the one that tells the engine.
                if catch_unwind(AssertUnwindSafe(at_end)).is_err() {
                    tracing::warn!("what waited for a worker's end panicked");
                }
            }
        }
    }
}

impl fmt::Debug for Linger {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Linger")
    }
}

/// Wakes a thread that blocks on a future.
struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

impl fmt::Debug for Stop {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Stop")
            .field("is_stopped", &self.is_stopped())
            .field("is_input_lost", &self.is_input_lost())
            .finish()
    }
}

/// Tells one worker to stop; the engine's end of a [`Stop`].
///
/// Dropping it tells nothing.
pub struct Stopper {
    cell: Arc<Cell>,
}

impl Stopper {
    /// Tells the worker to stop. Later calls change nothing.
    pub fn stop(&self) {
        self.cell.raise(STOPPED);
    }

    /// Tells the worker to stop, and returns whether its start had ended before.
    pub(crate) fn stop_start(&self) -> bool {
        self.cell.raise(STOPPED) & STARTED != 0
    }

    /// Takes what the worker has said last of how well it runs, if that was not taken yet.
    pub(crate) fn take_health(&self) -> Option<Option<String>> {
        self.cell.state.lock().rare.as_deref_mut()?.health.take()
    }

    /// Tells the worker that an input has ended by itself. Later calls change nothing.
    pub fn lose_input(&self) {
        self.cell.raise(LOST);
    }
}

impl fmt::Debug for Stopper {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Stopper").field("is_stopped", &self.cell.has(STOPPED)).finish()
    }
}

#[cfg(test)]
mod tests {
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

    #[tokio::test]
    async fn a_lost_input_is_not_a_stop() {
        let (stopper, stop) = Stop::pair();
        stopper.lose_input();
        stop.input_lost().await;
        assert!(!stop.is_stopped());
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
}
