//! A worker's stop, and the engine's end of it.

pub(crate) mod cell;
mod wait;
mod waiters;

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::Thread;
use std::time::Duration;

use parking_lot::Mutex;

use super::host::Identity;
use crate::machine::Left;
use crate::vocabulary::exit::Panicked;
use cell::{
    ABORTED, Cell, DROPS, Degraded, LINGERED, LOST, Linger, OVERDUE, STARTED, STOPPED, UNREADY,
};

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
    #[inline]
    pub(crate) fn of(identity: Identity) -> (Stopper, Self) {
        Self::pair_of(Some(identity))
    }

    #[inline]
    fn pair_of(identity: Option<Identity>) -> (Stopper, Self) {
        let (flags, state) = (AtomicU8::default(), Mutex::default());
        let cell = Arc::new(Cell { flags, state, identity });
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

    /// Returns the worker's seed, which is that of its [`Context`](crate::Context::seed); `None` for a
    /// worker without an engine.
    pub fn seed(&self) -> Option<u64> {
        self.cell.identity.as_ref().map(Identity::seed)
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
    /// The worker does not count as gone while the work goes on, also if its future was dropped.
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
            // In this order: what nobody waits for any more is dropped before the worker is gone.
            (result, linger)
        });
        match task.await {
            Ok((result, _linger)) => result.map_err(Panicked::from_payload),
            Err(error) => Err(Panicked::from_payload(Box::new(error.to_string()))),
        }
    }

    /// Keeps the worker from counting as gone while the returned guard lives.
    ///
    /// It is for what outlives the worker's future, such as tasks of its own that end a moment after
    /// it was dropped: the worker's end is told at once, but it is not started again before they
    /// have ended. They have the worker's grace; after that it is stuck.
    pub fn linger(&self) -> Linger {
        self.cell.linger(false)
    }

    /// Runs `at_end` when nothing lingers any more; see [`once_gone`](crate::owner::once_gone).
    pub(crate) fn once_gone(&self, at_end: impl FnOnce() + Send + 'static) {
        self.cell.once_gone(at_end);
    }

    /// Sets how long what is left of the worker has from its end on, in place of its grace.
    pub(crate) fn set_linger_grace(&self, grace: Duration) {
        self.cell.state.lock().extras.get_or_insert_default().grace = Some(grace);
    }

    /// Keeps the worker from counting as gone while something of it is dropped.
    pub(crate) fn dropping(&self) -> Linger {
        self.cell.linger(true)
    }

    /// Says that the loop has something of the worker dropped after its end.
    pub(crate) fn set_drops(&self) {
        // Nobody waits for this flag.
        self.cell.flags.fetch_or(DROPS, Ordering::AcqRel);
    }

    /// Returns whether the loop has something of the worker dropped after its end.
    pub(crate) fn has_drops(&self) -> bool {
        self.cell.has(DROPS)
    }

    /// Names workers that an engine nested in this worker has left behind.
    pub(crate) fn leave_inside(&self, paths: &[String]) {
        let mut state = self.cell.state.lock();
        let left_inside = &mut state.extras.get_or_insert_default().left_inside;
        left_inside.extend_from_slice(paths);
        left_inside.sort_unstable();
        left_inside.dedup();
    }

    /// Returns whether the engine drops the worker's future.
    pub(crate) fn is_aborted(&self) -> bool {
        self.cell.has(ABORTED)
    }

    /// Returns whether it does so because the start took too long.
    pub(crate) fn is_overdue(&self) -> bool {
        self.cell.has(OVERDUE)
    }

    /// Leaves how well the worker runs for the engine to take; returns whether nothing was waiting
    /// to be taken, so that the engine is to be told.
    pub(crate) fn put_health(&self, degraded: Option<Degraded>) -> bool {
        let before = self.cell.state.lock().extras.get_or_insert_default().health.replace(degraded);
        before.is_none()
    }

    /// Says that the start has come to its end; returns whether the stop had been told before.
    pub(crate) fn start_ended(&self) -> bool {
        // Nobody waits for this flag.
        self.cell.flags.fetch_or(STARTED, Ordering::AcqRel) & STOPPED != 0
    }

    /// Says that the worker can never come up any more.
    pub(crate) fn set_unready(&self) {
        // Nobody waits for this flag.
        self.cell.flags.fetch_or(UNREADY, Ordering::AcqRel);
    }

    /// Returns whether the worker has come to be unable to come up, once.
    pub(crate) fn take_unready(&self) -> bool {
        self.cell.has(UNREADY)
            && self.cell.flags.fetch_and(!UNREADY, Ordering::AcqRel) & UNREADY != 0
    }

    /// Tells the worker to stop on its own account: the engine has not asked for it.
    pub(crate) fn stop_itself(&self) {
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

    /// Waits until an input has ended by itself, whether the worker was told to stop or not; for
    /// ever if none does.
    ///
    /// See [`only_input_lost`](crate::owner::only_input_lost).
    pub(crate) fn only_input_lost(&self) -> impl Future<Output = ()> + Send {
        self.cell.wait_for(LOST)
    }

    /// Returns whether an input that the worker was started with has ended by itself.
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

/// Tells one worker to stop; the engine's end of a [`Stop`].
///
/// Dropping it tells nothing; its clones tell the same worker.
#[derive(Clone)]
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

    /// Tells the worker to stop, and notes that its future is dropped, and why.
    pub(crate) fn abort(&self, is_overdue: bool) {
        let flags = if is_overdue { ABORTED | OVERDUE } else { ABORTED };
        // Nobody waits for these flags.
        self.cell.flags.fetch_or(flags, Ordering::AcqRel);
        self.stop();
    }

    /// Keeps the worker from counting as gone while something that it offered is dropped.
    pub(crate) fn dropping(&self) -> Linger {
        self.cell.linger(true)
    }

    /// Returns whether something is left of the worker besides what is being dropped.
    pub(crate) fn lingers(&self) -> bool {
        self.cell.has(LINGERED) && {
            let state = self.cell.state.lock();
            state.extras.as_deref().is_some_and(|extras| extras.parts > extras.dropping)
        }
    }

    /// Runs `at_end` when nothing lingers any more; see [`Stop::once_gone`].
    pub(crate) fn once_gone(&self, at_end: impl FnOnce() + Send + 'static) {
        self.cell.once_gone(at_end);
    }

    /// Returns what is left of the worker, whose future has ended.
    pub(crate) fn left(&self) -> Left {
        // Most never had anything that lingers, and need no lock to say so.
        if !self.cell.has(LINGERED) {
            return Left::Nothing;
        }
        match self.cell.state.lock().extras.as_deref() {
            Some(extras) if extras.parts > 0 => Left::Something { grace: extras.grace },
            _ => Left::Nothing,
        }
    }

    /// Takes what the worker has said last of how well it runs, if that was not taken yet.
    pub(crate) fn take_health(&self) -> Option<Option<Degraded>> {
        self.cell.state.lock().extras.as_deref_mut()?.health.take()
    }

    /// Returns the workers that engines nested in this worker have left behind, by path.
    pub(crate) fn left_inside(&self) -> Vec<String> {
        let state = self.cell.state.lock();
        state.extras.as_deref().map_or_else(Vec::new, |extras| extras.left_inside.clone())
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
