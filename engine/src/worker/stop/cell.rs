//! The cell that a worker has in common with its engine: which worker it is, and the small signs
//! they give each other; above all, the stop.
//!
//! It is one small allocation, so that a hundred thousand idle workers cost little.
//!
//! Invariants:
//! 1. A flag that anyone waits for is only ever set, and is set before those who wait are woken.
//! 2. `STARTED` and `STOPPED` are set by read-modify-write on one byte, so of a start that ends
//!    and a stop that comes at the same moment each sees which was first.
//! 3. A worker is gone only when none of its lingering parts is left and all that waited for
//!    that has run.
//! 4. No foreign code runs under the lock, and nothing of users' is dropped there.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

use super::waiters::Waiters;
use crate::worker::host::Identity;

/// What a worker says that does not do all it should.
pub(crate) struct Degraded {
    pub(crate) reason: String,
    pub(crate) next_try: Option<Instant>,
}

pub(super) const STOPPED: u8 = 1;
pub(super) const LOST: u8 = 2;
pub(super) const STARTED: u8 = 4;
/// Something may outlive the worker's future. It is set before that is counted, so that who does not
/// find it set need not look.
pub(super) const LINGERED: u8 = 8;
/// What says that a closure worker is up was dropped: it will never be. Cleared when that was told.
pub(super) const UNREADY: u8 = 16;
/// The engine drops the worker's future.
pub(super) const ABORTED: u8 = 32;
/// It does so because the start took too long.
pub(super) const OVERDUE: u8 = 64;
/// It may offer what is not plain, or has a reporter: the loop has that dropped after the end.
pub(super) const DROPS: u8 = 128;

pub(super) struct Cell {
    pub(super) flags: AtomicU8,
    pub(super) state: Mutex<CellState>,
    /// None for a worker without an engine.
    pub(super) identity: Option<Identity>,
}

#[derive(Default)]
pub(super) struct CellState {
    pub(super) waiters: Waiters,
    pub(super) extras: Option<Box<CellExtras>>,
}

/// What few workers have.
#[derive(Default)]
pub(super) struct CellExtras {
    /// How many parts of the worker outlive its future.
    pub(super) parts: usize,
    /// How many of them are only being dropped.
    pub(super) dropping: usize,
    /// What is to happen once they are gone, in this order.
    pub(super) at_end: Vec<Box<dyn FnOnce() + Send>>,
    /// How long they have from the worker's end on, in place of its grace.
    pub(super) grace: Option<Duration>,
    /// The workers that an engine nested in it has left behind, by path.
    pub(super) left_inside: Vec<String>,
    /// Why the worker is degraded, or that it is not, until the engine takes it.
    pub(super) health: Option<Option<Degraded>>,
}

impl Cell {
    pub(super) fn has(&self, flags: u8) -> bool {
        self.flags.load(Ordering::Acquire) & flags != 0
    }

    /// Sets `flag` and returns the flags from before.
    pub(super) fn raise(&self, flag: u8) -> u8 {
        let before = self.flags.fetch_or(flag, Ordering::AcqRel);
        if before & flag == 0 {
            // Who looks at the flags under the lock sees this one, or is among the waiters.
            let woken = self.state.lock().waiters.take();
            woken.wake();
        }
        before
    }

    pub(super) fn linger(self: &Arc<Self>, is_dropping: bool) -> Linger {
        self.flags.fetch_or(LINGERED, Ordering::AcqRel);
        let mut state = self.state.lock();
        let extras = state.extras.get_or_insert_default();
        extras.parts += 1;
        extras.dropping += usize::from(is_dropping);
        Linger { cell: Arc::clone(self), is_dropping }
    }

    pub(super) fn once_gone(&self, at_end: impl FnOnce() + Send + 'static) {
        let mut state = self.state.lock();
        match state.extras.as_deref_mut() {
            Some(extras) if extras.parts > 0 => extras.at_end.push(Box::new(at_end)),
            _ => {
                drop(state);
                at_end();
            }
        }
    }
}

/// A part of a worker that outlives its future; made by [`Stop::linger`].
#[must_use = "the worker may count as gone when this is dropped"]
pub struct Linger {
    cell: Arc<Cell>,
    /// It keeps what is being dropped.
    is_dropping: bool,
}

impl Drop for Linger {
    fn drop(&mut self) {
        loop {
            let mut state = self.cell.state.lock();
            let Some(left) = state.extras.as_deref_mut() else { return };
            if left.parts > 1 || left.at_end.is_empty() {
                left.parts -= 1;
                left.dropping -= usize::from(self.is_dropping);
                return;
            }
            // The last part counts until all that waits for its end has run.
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
