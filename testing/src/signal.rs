//! A state that several share, and that can be waited for.

use parking_lot::{Mutex, MutexGuard};
use tokio::sync::Notify;

/// A state under a lock, with what wakes those who wait for it.
#[derive(Default)]
pub(crate) struct Signal<S> {
    state: Mutex<S>,
    changed: Notify,
}

impl<S> Signal<S> {
    pub(crate) fn new(state: S) -> Self {
        Self { state: Mutex::new(state), changed: Notify::new() }
    }

    /// Locks the state, to look at it.
    pub(crate) fn lock(&self) -> MutexGuard<'_, S> {
        self.state.lock()
    }

    /// Changes the state and wakes all who wait.
    pub(crate) fn change<T>(&self, change: impl FnOnce(&mut S) -> T) -> T {
        let changed = change(&mut self.state.lock());
        self.wake();
        changed
    }

    /// Wakes all who wait, so that they look again.
    pub(crate) fn wake(&self) {
        self.changed.notify_waiters();
    }

    /// Waits until `take` finds what it looks for.
    pub(crate) async fn wait_for<T>(&self, mut take: impl FnMut(&mut S) -> Option<T>) -> T {
        loop {
            // Made before the look: what comes after it wakes this.
            let changed = self.changed.notified();
            let taken = take(&mut self.state.lock());
            match taken {
                Some(taken) => return taken,
                None => changed.await,
            }
        }
    }
}
