//! The request to stop: the worker's side ([`Stop`]) and the engine's side ([`Stopper`]).

pub(crate) mod cell;
mod wait;
mod waiters;

use std::fmt;
use std::num::NonZeroU32;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU16, AtomicU32, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::Thread;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::task::AbortHandle;

use super::host::Identity;
use crate::machine::ends::Left;
use crate::vocabulary::exit::Panicked;
use crate::vocabulary::ticks;
use cell::{
    ABORTED, Cell, DROPS, Degraded, ENDED, LINGERED, LOST, LeftWorker, Linger, NAMED, OVERDUE,
    STARTED, STOPPED, UNREADY,
};

/// A worker's view of the request to stop.
///
/// Cheap to clone. All clones see the request at the same moment.
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
    /// Returns a stop and the handle that sets it, to run a worker without an engine.
    pub fn pair() -> (Stopper, Self) {
        Self::pair_of(None)
    }

    /// Returns the stop for a worker of an engine, and the handle that sets it.
    #[inline]
    pub(crate) fn of(identity: Identity) -> (Stopper, Self) {
        Self::pair_of(Some(identity))
    }

    #[inline]
    fn pair_of(identity: Option<Identity>) -> (Stopper, Self) {
        let (flags, polled) = (AtomicU16::default(), AtomicU32::default());
        let cell = Arc::new(Cell { flags, polled, state: Mutex::default(), identity });
        (Stopper { cell: Arc::clone(&cell) }, Self { cell })
    }

    /// Returns the identity of the worker.
    ///
    /// # Panics
    ///
    /// If the worker has no engine.
    pub(crate) fn identity(&self) -> &Identity {
        self.cell.identity.as_ref().expect("it is the stop of a worker of an engine")
    }

    /// Returns the worker's seed, the same as [`Context::seed`](crate::Context::seed). `None` for a
    /// worker without an engine.
    pub fn seed(&self) -> Option<u64> {
        self.cell.identity.as_ref().map(Identity::seed)
    }

    /// Waits until the worker is told to stop.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: once set, the stop stays set.
    pub fn wait(&self) -> impl Future<Output = ()> + Send {
        self.cell.wait_for(STOPPED)
    }

    /// Whether the worker was told to stop.
    pub fn is_stopped(&self) -> bool {
        self.cell.has(STOPPED)
    }

    /// Blocks the thread until the worker is told to stop.
    ///
    /// For blocking workers, which have a thread of their own.
    pub fn wait_blocking(&self) {
        let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
        let mut context = Context::from_waker(&waker);
        let mut wait = pin!(self.wait());
        while wait.as_mut().poll(&mut context) == Poll::Pending {
            std::thread::park();
        }
    }

    /// Runs short blocking work on a thread of tokio's blocking pool.
    ///
    /// The worker does not count as gone while the work runs, even if the worker's future was
    /// dropped.
    ///
    /// # Errors
    ///
    /// If the work panics: [`Panicked`] with its message.
    ///
    /// # Cancel safety
    ///
    /// Cancelling ends the wait. The work goes on.
    pub async fn blocking<T, F>(&self, work: F) -> Result<T, Panicked>
    where
        T: Send + 'static,
        F: FnOnce() -> T + Send + 'static,
    {
        let linger = self.linger();
        let task = tokio::task::spawn_blocking(move || {
            // On this thread, which has noted the backtrace of a panic.
            let result = catch_unwind(AssertUnwindSafe(work)).map_err(Panicked::from_payload);
            // The order matters: a result that nobody waits for is dropped before the worker is
            // gone.
            (result, linger)
        });
        match task.await {
            Ok((result, _linger)) => result,
            Err(error) => Err(Panicked::from_payload(Box::new(error.to_string()))),
        }
    }

    /// Keeps the worker from counting as gone until the returned guard is dropped.
    ///
    /// Use it for what outlives the worker's future, for example tasks that end a moment later. The
    /// engine learns of the worker's end at once, but starts the next generation only after the
    /// guards are dropped. They have the worker's grace; after that the worker is stuck.
    pub fn linger(&self) -> Linger {
        self.cell.linger(false)
    }

    /// Runs `at_end` when nothing of the worker lingers; see
    /// [`once_gone`](crate::owner::once_gone).
    pub(crate) fn once_gone(&self, at_end: impl FnOnce() + Send + 'static) {
        self.cell.once_gone(at_end);
    }

    /// Sets how long the lingering parts may take after the worker's end. Default: the worker's
    /// grace.
    pub(crate) fn set_linger_grace(&self, grace: Duration) {
        self.cell.state.lock().extras.get_or_insert_default().grace = Some(grace);
    }

    /// Keeps the worker from counting as gone while a part of it is dropped.
    pub(crate) fn dropping(&self) -> Linger {
        self.cell.linger(true)
    }

    /// Notes that the loop drops a part of the worker after its end.
    pub(crate) fn set_drops(&self) {
        // Nobody waits for this flag.
        self.cell.flags.fetch_or(DROPS, Ordering::AcqRel);
    }

    /// Whether the loop drops a part of the worker after its end.
    pub(crate) fn has_drops(&self) -> bool {
        self.cell.has(DROPS)
    }

    /// Records the workers that a nested engine in this worker has left behind.
    pub(crate) fn leave_inside(&self, workers: &[LeftWorker]) {
        let mut state = self.cell.state.lock();
        let left_inside = &mut state.extras.get_or_insert_default().left_inside;
        left_inside.get_or_insert_default().extend_from_slice(workers);
    }

    /// Records that the worker's task or thread has ended; see invariant 5 of the cell.
    pub(crate) fn set_ended(&self) {
        // Nobody waits for this flag.
        self.cell.flags.fetch_or(ENDED, Ordering::AcqRel);
    }

    /// Whether the engine drops the worker's future.
    pub(crate) fn is_aborted(&self) -> bool {
        self.cell.has(ABORTED)
    }

    /// Whether the engine drops the future because the start took too long.
    pub(crate) fn is_overdue(&self) -> bool {
        self.cell.has(OVERDUE)
    }

    /// Stores the health until the engine takes it. Returns whether no earlier one was waiting, so
    /// that the caller must send a message to the engine.
    pub(crate) fn put_health(&self, degraded: Option<Degraded>) -> bool {
        let mut state = self.cell.state.lock();
        let waiting = &mut state.extras.get_or_insert_default().health;
        let before = waiting.replace(degraded);
        if let (Some(Some(before)), Some(Some(now))) = (&before, waiting) {
            now.attempts = now.attempts.saturating_add(before.attempts);
        }
        before.is_none()
    }

    /// Records that the start has ended. Returns whether the worker was told to stop before.
    pub(crate) fn start_ended(&self) -> bool {
        // Nobody waits for this flag.
        self.cell.flags.fetch_or(STARTED, Ordering::AcqRel) & STOPPED != 0
    }

    /// Records that the worker can never come up.
    pub(crate) fn set_unready(&self) {
        // Nobody waits for this flag.
        self.cell.flags.fetch_or(UNREADY, Ordering::AcqRel);
    }

    /// Whether the worker can never come up. Returns `true` once.
    pub(crate) fn take_unready(&self) -> bool {
        self.cell.has(UNREADY)
            && self.cell.flags.fetch_and(!UNREADY, Ordering::AcqRel) & UNREADY != 0
    }

    /// Tells the worker to stop, although the engine has not asked for it.
    pub(crate) fn stop_itself(&self) {
        self.cell.raise(STOPPED);
    }

    /// Notes that a poll of the worker's task begins.
    pub(crate) fn begin_poll(&self) {
        self.cell.polled.store(ticks::now(), Ordering::Relaxed);
    }

    /// Notes that the poll has ended.
    pub(crate) fn end_poll(&self) {
        self.cell.polled.store(0, Ordering::Relaxed);
    }

    /// Waits until an input has ended by itself, or the worker is told to stop.
    ///
    /// The worker of a lost input is gone already. The stop follows as soon as the dependents of
    /// this worker have ended. Use this to end early the work that needs the input.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe.
    pub fn input_lost(&self) -> impl Future<Output = ()> + Send {
        self.cell.wait_for(LOST | STOPPED)
    }

    /// Waits until an input has ended by itself, even if the worker was told to stop. Waits forever
    /// if no input ends.
    ///
    /// See [`only_input_lost`](crate::owner::only_input_lost).
    pub(crate) fn only_input_lost(&self) -> impl Future<Output = ()> + Send {
        self.cell.wait_for(LOST)
    }

    /// Whether an input of the worker has ended by itself.
    pub fn is_input_lost(&self) -> bool {
        self.cell.has(LOST)
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

/// Tells one worker to stop; the engine's side of a [`Stop`].
///
/// Dropping it does nothing. Its clones belong to the same worker.
#[derive(Clone)]
pub struct Stopper {
    cell: Arc<Cell>,
}

impl Stopper {
    /// Tells the worker to stop. Later calls change nothing.
    pub fn stop(&self) {
        self.cell.raise(STOPPED);
    }

    /// Tells the worker to stop. If its start is not over, the start is dropped, as by [`abort`](Self::abort).
    pub(crate) fn stop_start(&self, task: Option<&AbortHandle>) {
        let before = self.cell.flags.fetch_or(STOPPED, Ordering::AcqRel);
        if before & STARTED == 0 {
            self.drop_future(ABORTED, task);
        }
        self.wake_if_first(before);
    }

    /// Tells the worker to stop, and drops its future: that of `task`. A worker on a thread has no task, and is only
    /// told. Records whether the start took too long.
    pub(crate) fn abort(&self, is_overdue: bool, task: Option<&AbortHandle>) {
        let before = self.cell.flags.fetch_or(STOPPED, Ordering::AcqRel);
        self.drop_future(if is_overdue { ABORTED | OVERDUE } else { ABORTED }, task);
        self.wake_if_first(before);
    }

    /// Drops the worker's future. This comes before the waiters are woken: else another thread could poll the worker
    /// because of the stop.
    fn drop_future(&self, flags: u16, task: Option<&AbortHandle>) {
        // Nobody waits for these flags.
        self.cell.flags.fetch_or(flags, Ordering::AcqRel);
        if let Some(task) = task {
            task.abort();
        }
    }

    fn wake_if_first(&self, before: u16) {
        if before & STOPPED == 0 {
            self.cell.wake_waiters();
        }
    }

    /// Keeps the worker from counting as gone while one of its outputs is dropped.
    pub(crate) fn dropping(&self) -> Linger {
        self.cell.linger(true)
    }

    /// Whether something of the worker lingers, apart from what is being dropped.
    pub(crate) fn lingers(&self) -> bool {
        self.cell.has(LINGERED) && {
            let state = self.cell.state.lock();
            state.extras.as_deref().is_some_and(|extras| extras.parts > extras.dropping)
        }
    }

    /// Runs `at_end` when nothing of the worker lingers; see [`Stop::once_gone`].
    pub(crate) fn once_gone(&self, at_end: impl FnOnce() + Send + 'static) {
        self.cell.once_gone(at_end);
    }

    /// Returns what lingers of an ended worker.
    pub(crate) fn left(&self) -> Left {
        // Most workers never had a lingering part. This check needs no lock.
        if !self.cell.has(LINGERED) {
            return Left::Nothing;
        }
        match self.cell.state.lock().extras.as_deref() {
            Some(extras) if extras.parts > 0 => Left::Something { grace: extras.grace },
            _ => Left::Nothing,
        }
    }

    /// Returns for how many ticks the worker's task has been polled without a break; `None` between
    /// two polls.
    pub(crate) fn polled_for(&self) -> Option<u32> {
        let polled = NonZeroU32::new(self.cell.polled.load(Ordering::Relaxed) & !NAMED)?;
        Some(ticks::now().saturating_sub(polled.get()))
    }

    /// Whether the worker's task is being polled, and this is the first call in this poll.
    pub(crate) fn is_named_first(&self) -> bool {
        let name = |polled| (polled != 0 && polled & NAMED == 0).then_some(polled | NAMED);
        self.cell.polled.fetch_update(Ordering::Relaxed, Ordering::Relaxed, name).is_ok()
    }

    /// Takes the health that the worker reported last, if it was not taken yet.
    pub(crate) fn take_health(&self) -> Option<Option<Degraded>> {
        let mut state = self.cell.state.lock();
        let health = state.extras.as_deref_mut()?.health.take();
        state.free_empty_extras();
        health
    }

    /// Returns the workers that nested engines in this worker have left behind, also those that are
    /// gone by now. `None` if no engine has.
    pub(crate) fn left_inside(&self) -> Option<Vec<LeftWorker>> {
        self.cell.state.lock().extras.as_deref()?.left_inside.clone()
    }

    /// Returns the worker as one that its engine leaves behind.
    pub(crate) fn to_left_worker(&self, path: String) -> LeftWorker {
        LeftWorker { path, cell: Arc::downgrade(&self.cell) }
    }

    /// Tells the worker that an input has ended by itself. Later calls change nothing.
    pub(crate) fn lose_input(&self) {
        self.cell.raise(LOST);
    }
}

impl fmt::Debug for Stopper {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Stopper").field("is_stopped", &self.cell.has(STOPPED)).finish()
    }
}

#[cfg(test)]
mod tests;
