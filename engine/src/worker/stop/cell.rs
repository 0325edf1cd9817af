//! The state that a worker shares with its engine: its identity, and the flags and values that they
//! exchange, above all the stop.
//!
//! It is one small allocation, so that 100,000 idle workers need little memory.
//!
//! Invariants:
//! 1. A flag that anyone waits for is never cleared. It is set before its waiters are woken.
//! 2. `STARTED` and `STOPPED` are set by read-modify-write on one atomic. So if a start ends and a
//!    stop comes at the same moment, both sides see which was first.
//! 3. A worker is gone only when none of its parts lingers and every function that waited for this
//!    has run.
//! 4. No foreign code runs under the lock, and no value of a user is dropped under it.
//! 5. The worker's guard and each lingering part hold the cell. The guard sets `ENDED` last, when
//!    what waits for the worker's end was noted or has run. So a worker is gone if its cell is freed,
//!    or if it has `ENDED` and none of its parts lingers.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU16, AtomicU32, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

use super::waiters::Waiters;
use crate::worker::host::Identity;

/// The health of a degraded worker.
pub(crate) struct Degraded {
    pub(crate) reason: String,
    pub(crate) next_try: Option<Instant>,
    /// How many attempts have failed since the last report that the engine has taken.
    pub(crate) attempts: u32,
    pub(crate) waits_for: Option<WaitsFor>,
    /// Whether it leaves its work alone because a person has asked for that.
    pub(crate) is_paused: bool,
}

impl Degraded {
    /// Returns the health of a worker that is degraded for this reason.
    pub(crate) fn new(reason: String) -> Self {
        Self { reason, next_try: None, attempts: 0, waits_for: None, is_paused: false }
    }

    /// Whether another worker holds this one back.
    pub(crate) fn is_held_back(&self) -> bool {
        self.waits_for.as_ref().is_some_and(|other| other.is_held_back)
    }
}

/// The other worker of the same engine that a worker says it waits for.
pub(crate) struct WaitsFor {
    pub(crate) name: String,
    /// Whether that worker is not well, and so holds this one back.
    pub(crate) is_held_back: bool,
}

pub(super) const STOPPED: u16 = 1;
pub(super) const LOST: u16 = 2;
pub(super) const STARTED: u16 = 4;
/// A part of the worker may outlive its future. The flag is set before the part is counted, so a
/// thread that finds the flag unset need not take the lock.
pub(super) const LINGERED: u16 = 8;
/// The `Up` of a closure worker was dropped before `ready`: the worker can never come up. Cleared
/// when the worker's task reads it.
pub(super) const UNREADY: u16 = 16;
/// The engine drops the worker's future.
pub(super) const ABORTED: u16 = 32;
/// The engine drops the future because the start took too long.
pub(super) const OVERDUE: u16 = 64;
/// The worker may offer outputs whose drop runs foreign code, or has a reporter. The loop drops
/// these after the worker's end.
pub(super) const DROPS: u16 = 128;
/// The worker's task or thread has ended, see invariant 5.
pub(super) const ENDED: u16 = 256;

/// In `polled`: the watchdog has named the worker in this poll.
pub(super) const NAMED: u32 = 1 << 31;

pub(super) struct Cell {
    pub(super) flags: AtomicU16,
    /// The tick at which the poll of the worker's task has begun; zero between two polls. It takes
    /// the place of padding.
    pub(super) polled: AtomicU32,
    pub(super) state: Mutex<CellState>,
    /// `None` for a worker without an engine.
    pub(super) identity: Option<Identity>,
}

#[derive(Default)]
pub(super) struct CellState {
    pub(super) waiters: Waiters,
    pub(super) extras: Option<Box<CellExtras>>,
}

/// State that only few workers need.
#[derive(Default)]
pub(super) struct CellExtras {
    /// The number of parts that outlive the worker's future.
    pub(super) parts: usize,
    /// The number of these parts that are only being dropped.
    pub(super) dropping: usize,
    /// The functions to call when no part is left, in this order.
    pub(super) at_end: Vec<Box<dyn FnOnce() + Send>>,
    /// How long the parts may take after the worker's end. `None`: the worker's grace.
    pub(super) grace: Option<Duration>,
    /// The workers that nested engines in this worker have left behind. None if no engine has.
    pub(super) left_inside: Option<Vec<LeftWorker>>,
    /// A health report that the engine has not taken yet. The inner `None` means good health.
    pub(super) health: Option<Option<Degraded>>,
}

impl CellState {
    /// Frees the extras if nothing is in them. Most workers that have had some never need them again.
    pub(super) fn free_empty_extras(&mut self) {
        if self.extras.as_deref().is_some_and(CellExtras::is_empty) {
            self.extras = None;
        }
    }
}

impl CellExtras {
    fn is_empty(&self) -> bool {
        let Self { parts, dropping: _, at_end, grace, left_inside, health } = self;
        *parts == 0
            && at_end.is_empty()
            && grace.is_none()
            && left_inside.is_none()
            && health.is_none()
    }
}

/// A worker that an engine has left behind.
#[derive(Clone)]
pub(crate) struct LeftWorker {
    pub(crate) path: String,
    /// Weak: the cell holds its nested engine, which holds the cell of the outer worker, which holds
    /// this.
    pub(super) cell: Weak<Cell>,
}

impl LeftWorker {
    /// Whether the worker is gone by now.
    ///
    /// `discard` gets what was held for this look. Its drop may be that of the worker's engine, which
    /// is foreign code.
    pub(crate) fn is_gone(&self, discard: impl FnOnce(Arc<dyn Send + Sync>)) -> bool {
        // By invariant 5.
        let Some(cell) = self.cell.upgrade() else { return true };
        let is_gone = cell.has(ENDED) && cell.parts() == 0;
        discard(cell);
        is_gone
    }
}

impl Cell {
    pub(super) fn has(&self, flags: u16) -> bool {
        self.flags.load(Ordering::Acquire) & flags != 0
    }

    /// Sets `flag` and returns the flags from before.
    pub(super) fn raise(&self, flag: u16) -> u16 {
        let before = self.flags.fetch_or(flag, Ordering::AcqRel);
        if before & flag == 0 {
            self.wake_waiters();
        }
        before
    }

    /// Wakes all waiters. Call it after a flag was set: a future checks the flags under the lock, so it
    /// either sees the flag or is among the waiters.
    pub(super) fn wake_waiters(&self) {
        let woken = self.state.lock().waiters.take();
        woken.wake();
    }

    pub(super) fn linger(self: &Arc<Self>, is_dropping: bool) -> Linger {
        self.flags.fetch_or(LINGERED, Ordering::AcqRel);
        let mut state = self.state.lock();
        let extras = state.extras.get_or_insert_default();
        extras.parts += 1;
        extras.dropping += usize::from(is_dropping);
        Linger { cell: Arc::clone(self), is_dropping }
    }

    /// Returns how many parts of the worker outlive its future.
    fn parts(&self) -> usize {
        self.state.lock().extras.as_deref().map_or(0, |extras| extras.parts)
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

/// A part of a worker that outlives its future; made by
/// [`Stop::linger`](crate::Stop::linger).
#[must_use = "the worker may count as gone when this is dropped"]
pub struct Linger {
    cell: Arc<Cell>,
    /// Whether this part is only being dropped.
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
                state.free_empty_extras();
                return;
            }
            // The last part counts until every function that waits for its end has run.
            let at_end = std::mem::take(&mut left.at_end);
            drop(state);
            for at_end in at_end {
                // This is foreign code. A panic must not prevent the next function, which may be
                // the one that informs the engine.
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
