//! Runs the wakers of others, so that their panics end nothing.

use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::vocabulary::exit::Panicked;

/// Runs code that wakes a task or drops a waker. That is foreign code: a panic in it is logged, and
/// the caller goes on.
pub(crate) fn wake(act: impl FnOnce()) {
    if let Err(payload) = catch_unwind(AssertUnwindSafe(act)) {
        // The payload is foreign, too: its drop may panic, and `Panicked` prevents that.
        drop(Panicked::from_payload(payload));
        tracing::warn!(parent: None, "a waker panicked");
    }
}
