use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::vocabulary::exit::Panicked;

/// Runs what wakes somebody, or drops a waker. That is foreign code: a panic in it is logged, and the
/// caller goes on.
pub(crate) fn wake(act: impl FnOnce()) {
    if let Err(payload) = catch_unwind(AssertUnwindSafe(act)) {
        // The payload is foreign, too.
        drop(Panicked::from_payload(payload));
        tracing::warn!(parent: None, "a waker panicked");
    }
}
