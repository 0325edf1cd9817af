//! Drops what users made, outside the loop.

use std::panic::{AssertUnwindSafe, catch_unwind};

use tokio::runtime::Handle;

use super::EventLoop;
use crate::change::{Op, Ops};
use crate::manifold::Manifold;

/// How many ops are dropped in the loop if no manifold is left in them: nothing in them is foreign
/// then.
const FEW_OPS: usize = 64;

/// Drops something in a task of its own. A drop that panics is caught; one that blocks costs one
/// thread, and holds up no other drop.
pub(super) fn discard<T: Send + 'static>(runtime: &Handle, value: T) {
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

impl EventLoop {
    /// Drops something where the workers run.
    pub(super) fn discard<T: Send + 'static>(&self, value: T) {
        discard(&self.shared.environment.workers, value);
    }

    pub(super) fn discard_manifold(&self, manifold: Option<Manifold>) {
        if let Some(manifold) = manifold {
            self.discard(manifold);
        }
    }

    pub(super) fn discard_ops(&self, ops: Ops) {
        // What is installed now is left in none of them.
        if ops.len() > FEW_OPS || ops.iter().any(Op::has_manifold) {
            self.discard(ops);
        }
    }
}
