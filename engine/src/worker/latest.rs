//! The newest value of a changing output, on its way from the worker to the loop.

use std::mem;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::runtime::Handle;
use tokio::sync::Notify;

use crate::machine::Port;
use crate::vocabulary::discard::discard;
use crate::vocabulary::value::Value;

/// A new value, and the selected parts in which it does not differ from the last value that the
/// engine took.
pub(crate) struct Published {
    pub(crate) value: Value,
    pub(crate) same: Vec<Port>,
}

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
    next: Option<Published>,
    used: Vec<Value>,
    /// The publisher is gone.
    is_closed: bool,
}

impl Latest {
    pub(crate) fn take(&self) -> Option<Published> {
        self.state.lock().next.take()
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
pub(super) struct LatestSender {
    pub(super) latest: Arc<Latest>,
    /// The last value that was published.
    pub(super) last: Value,
    /// Where values are dropped; `None` for the publisher's own task.
    pub(super) drops_on: Option<Handle>,
}

impl LatestSender {
    /// Stores a value, with the parts in which it does not differ from the last one. Returns
    /// whether no earlier value was waiting to be taken.
    pub(super) fn put(&mut self, value: Value, mut same: Vec<Port>) -> bool {
        let last = mem::replace(&mut self.last, Arc::clone(&value));
        let mut state = self.latest.state.lock();
        let before = state.next.take();
        if let Some(before) = &before {
            same.retain(|port| before.same.contains(port));
        }
        let is_first = before.is_none();
        state.next = Some(Published { value, same });
        drop(state);
        self.drop_values((before, last));
        is_first
    }

    /// Waits until values were returned, and drops them.
    pub(super) async fn drop_used(&self) {
        self.latest.has_used.notified().await;
        let used = mem::take(&mut self.latest.state.lock().used);
        self.drop_values(used);
    }

    fn drop_values<V: Send + 'static>(&self, values: V) {
        match &self.drops_on {
            Some(runtime) => discard(runtime, values),
            None => drop(values),
        }
    }
}

impl Drop for LatestSender {
    fn drop(&mut self) {
        let mut state = self.latest.state.lock();
        state.is_closed = true;
        let left = (state.next.take(), mem::take(&mut state.used));
        drop(state);
        let last = mem::replace(&mut self.last, Arc::new(()));
        self.drop_values((left, last));
    }
}
