//! A coarse clock, which costs one load to read. It moves only while the watchdog runs.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

/// The time between two ticks, in real time.
pub(crate) const TICK: Duration = Duration::from_millis(250);

/// A moment in ticks; never zero.
static NOW: AtomicU32 = AtomicU32::new(1);

pub(crate) fn now() -> u32 {
    NOW.load(Ordering::Relaxed)
}

/// Moves the clock by one tick.
pub(crate) fn tick() {
    NOW.fetch_add(1, Ordering::Relaxed);
}
