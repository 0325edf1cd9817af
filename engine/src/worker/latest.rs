//! The newest value of a changing output, on its way from the worker to the loop.

use std::mem;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::vocabulary::value::Value;

/// Passes values from the worker that publishes them to the engine.
///
/// It holds the newest value until the engine takes it. So at most one message is on its way,
/// however fast values come. It also returns replaced values to the publisher, which drops them. So
/// a `Drop` that blocks delays only the publisher.
#[derive(Default)]
pub(crate) struct Latest {
    state: Mutex<Passing>,
    has_used: Notify,
}

#[derive(Default)]
struct Passing {
    value: Option<Value>,
    used: Vec<Value>,
    /// The publisher is gone.
    is_closed: bool,
}

impl Latest {
    pub(crate) fn take(&self) -> Option<Value> {
        self.state.lock().value.take()
    }

    /// Returns values to their publisher. Returns them to the caller if the publisher is gone.
    pub(crate) fn give_back(&self, used: Vec<Value>) -> Result<(), Vec<Value>> {
        if used.is_empty() {
            return Ok(());
        }
        let mut state = self.state.lock();
        if state.is_closed {
            return Err(used);
        }
        state.used.extend(used);
        drop(state);
        self.has_used.notify_one();
        Ok(())
    }
}

/// The publisher's side of [`Latest`].
#[derive(Default)]
pub(super) struct Publisher {
    pub(super) latest: Arc<Latest>,
}

impl Publisher {
    /// Stores the value. Returns whether no earlier value was waiting to be taken.
    pub(super) fn put(&self, value: Value) -> bool {
        let before = self.latest.state.lock().value.replace(value);
        before.is_none()
    }

    /// Waits until values were returned, and drops them.
    pub(super) async fn drop_used(&self) {
        self.latest.has_used.notified().await;
        let used = mem::take(&mut self.latest.state.lock().used);
        drop(used);
    }
}

impl Drop for Publisher {
    fn drop(&mut self) {
        let mut state = self.latest.state.lock();
        state.is_closed = true;
        let left = (state.value.take(), mem::take(&mut state.used));
        drop(state);
        drop(left);
    }
}
