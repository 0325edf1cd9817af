//! Drops values with foreign code outside the loop.

use std::panic::{AssertUnwindSafe, catch_unwind};

use tokio::runtime::Handle;

/// Drops a value in a task of its own. A panic in the drop is caught. A drop that blocks takes one
/// thread and delays no other drop.
pub(crate) fn discard<T: Send + 'static>(runtime: &Handle, value: T) {
    // The value catches the panic itself, because a runtime that was shut down drops the future
    // here without a poll.
    let value = Discarded(Some(value));
    drop(runtime.spawn(async move { drop(value) }));
}

/// A value whose drop is foreign code.
struct Discarded<T>(Option<T>);

impl<T> Drop for Discarded<T> {
    fn drop(&mut self) {
        let value = self.0.take();
        if catch_unwind(AssertUnwindSafe(|| drop(value))).is_err() {
            tracing::warn!("a value panicked while it was dropped");
        }
    }
}
