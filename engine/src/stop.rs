//! The cell through which an engine tells a worker to stop.
//!
//! It is one allocation of a flag byte, a counter and a `Notify`, so that a hundred thousand idle
//! workers cost little.
//!
//! Invariants:
//! 1. A flag is only ever set, and is set before waiters are notified.
//! 2. `STARTED` and `STOPPED` are set by read-modify-write on one byte, so of a start that ends
//!    and a stop that comes at the same moment each sees which was first.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use tokio::sync::Notify;

const STOPPED: u8 = 1;
const LOST: u8 = 2;
const STARTED: u8 = 4;

#[derive(Default)]
struct Cell {
    flags: AtomicU8,
    notify: Notify,
}

impl Cell {
    fn has(&self, flag: u8) -> bool {
        self.flags.load(Ordering::Acquire) & flag != 0
    }

    /// Sets `flag` and returns the flags from before.
    fn raise(&self, flag: u8) -> u8 {
        let before = self.flags.fetch_or(flag, Ordering::AcqRel);
        if before & flag == 0 {
            self.notify.notify_waiters();
        }
        before
    }

    async fn wait_for(&self, flags: u8) {
        while !self.has(flags) {
            let notified = self.notify.notified();
            if self.has(flags) {
                return;
            }
            notified.await;
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
        let cell = Arc::new(Cell::default());
        (Stopper { cell: Arc::clone(&cell) }, Self { cell })
    }

    /// Waits until the worker is told to stop.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: a stop that was told stays told.
    pub async fn wait(&self) {
        self.cell.wait_for(STOPPED).await;
    }

    /// Returns whether the worker has been told to stop.
    pub fn is_stopped(&self) -> bool {
        self.cell.has(STOPPED)
    }

    /// Waits until an input has ended by itself, or the worker is told to stop.
    ///
    /// A lost input's worker is gone already; the stop follows as soon as this worker's own
    /// dependents have ended. Use it to give up early what needs the input.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe.
    pub async fn input_lost(&self) {
        self.cell.wait_for(LOST | STOPPED).await;
    }

    /// Returns whether an input that the worker was started with has ended by itself.
    pub fn is_input_lost(&self) -> bool {
        self.cell.has(LOST)
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
    async fn a_waiter_that_waits_first_is_woken() {
        let (stopper, stop) = Stop::pair();
        let mut wait = tokio::spawn(async move { stop.wait().await });
        assert!(futures_pending(&mut wait).await);
        stopper.stop();
        wait.await.unwrap();
    }

    #[tokio::test]
    async fn a_lost_input_is_not_a_stop() {
        let (stopper, stop) = Stop::pair();
        stopper.lose_input();
        stop.input_lost().await;
        assert!(!stop.is_stopped());
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
