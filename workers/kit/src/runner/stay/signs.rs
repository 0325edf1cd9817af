//! What a stay's task looks at without a lock.

use std::sync::atomic::{AtomicU8, Ordering};

/// Nothing is left of the last worker.
const GONE: u8 = 1;
/// The task waits until nothing is left of the worker.
const AWAITED: u8 = 2;
/// The task is to end without the end of its worker.
const ABORTED: u8 = 4;

/// Some of the constants above.
///
/// Invariant: the end of the last part of a worker and the wait for it are each set by a
/// read-modify-write, so that of both at the same moment the later one sees the other, and the task
/// neither sleeps on nor misses it.
#[derive(Default)]
pub(super) struct Signs(AtomicU8);

impl Signs {
    /// There is a worker again.
    pub(super) fn begin_again(&self) {
        self.0.fetch_and(!(GONE | AWAITED), Ordering::AcqRel);
    }

    /// Nothing is left of the worker; returns whether the task waits for that, and is to be woken.
    pub(super) fn set_gone(&self) -> bool {
        self.0.fetch_or(GONE, Ordering::AcqRel) & AWAITED != 0
    }

    /// Returns whether nothing is left of the worker; if not, the task waits for it from now on.
    pub(super) fn is_gone(&self) -> bool {
        let is_gone = |signs: u8| signs & GONE != 0;
        is_gone(self.0.load(Ordering::Acquire))
            || is_gone(self.0.fetch_or(AWAITED, Ordering::AcqRel))
    }

    pub(super) fn abort(&self) {
        self.0.fetch_or(ABORTED, Ordering::AcqRel);
    }

    pub(super) fn is_aborted(&self) -> bool {
        self.0.load(Ordering::Acquire) & ABORTED != 0
    }
}
