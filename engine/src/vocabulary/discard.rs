//! Drops what users made, outside the loop.

use std::panic::{AssertUnwindSafe, catch_unwind};

use tokio::runtime::Handle;

/// Drops something in a task of its own. A drop that panics is caught; one that blocks costs one
/// thread, and holds up no other drop.
pub(crate) fn discard<T: Send + 'static>(runtime: &Handle, value: T) {
    // Not in the future itself: a runtime that is shut down drops that here and now.
    let value = Discarded(Some(value));
    drop(runtime.spawn(async move { drop(value) }));
}

/// Something whose drop is foreign code.
struct Discarded<T>(Option<T>);

impl<T> Drop for Discarded<T> {
    fn drop(&mut self) {
        let value = self.0.take();
        if catch_unwind(AssertUnwindSafe(|| drop(value))).is_err() {
            tracing::warn!("a value panicked while it was dropped");
        }
    }
}
