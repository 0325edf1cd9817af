//! A channel that holds the newest value.
//!
//! It is like tokio's `watch`, with one difference: receivers are woken in the order in which they
//! began to wait. Tokio wakes them in a random order, so the same seed would not give the same
//! trace.
//!
//! Invariants:
//! 1. A new version is set before waiters are notified.
//! 2. The lock is held for a few lines, and no foreign code runs under it: values are shared
//!    pointers.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex;
use tokio::sync::Notify;

use super::wake::wake;

struct Shared<T> {
    state: Mutex<State<T>>,
    changed: Notify,
    receivers: AtomicUsize,
}

struct State<T> {
    value: T,
    /// Counts the changes.
    version: u64,
    is_closed: bool,
}

/// The sender is gone: no other value will come.
#[derive(Debug)]
pub(crate) struct Closed;

/// Returns both ends of a channel that holds a value. The receiver counts the value as seen.
pub(crate) fn channel<T>(value: T) -> (Sender<T>, Receiver<T>) {
    let state = Mutex::new(State { value, version: 0, is_closed: false });
    let shared = Shared { state, changed: Notify::new(), receivers: AtomicUsize::new(0) };
    let sender = Sender { shared: Arc::new(shared) };
    let receiver = sender.subscribe();
    (sender, receiver)
}

/// Sets the value. Receivers are notified when the sender is dropped.
pub(crate) struct Sender<T> {
    shared: Arc<Shared<T>>,
}

impl<T> Sender<T> {
    /// Returns a receiver that counts the current value as seen.
    pub(crate) fn subscribe(&self) -> Receiver<T> {
        let seen = self.shared.state.lock().version;
        self.shared.receivers.fetch_add(1, Ordering::Relaxed);
        Receiver { shared: Arc::clone(&self.shared), seen }
    }

    pub(crate) fn receiver_count(&self) -> usize {
        self.shared.receivers.load(Ordering::Relaxed)
    }

    /// Sets the value of a channel without receivers, and returns the one before.
    pub(crate) fn replace(&self, value: T) -> T {
        std::mem::replace(&mut self.shared.state.lock().value, value)
    }

    /// Changes the value in place. Notifies the receivers if `modify` returns `true`.
    pub(crate) fn send_if_modified(&self, modify: impl FnOnce(&mut T) -> bool) {
        let mut state = self.shared.state.lock();
        if modify(&mut state.value) {
            state.version += 1;
            drop(state);
            wake(|| self.shared.changed.notify_waiters());
        }
    }
}

impl<T> Drop for Sender<T> {
    fn drop(&mut self) {
        self.shared.state.lock().is_closed = true;
        wake(|| self.shared.changed.notify_waiters());
    }
}

/// Follows the value.
pub(crate) struct Receiver<T> {
    shared: Arc<Shared<T>>,
    seen: u64,
}

impl<T> Receiver<T> {
    /// Passes the value to `look` without counting it as seen.
    pub(crate) fn peek<R>(&self, look: impl FnOnce(&T) -> R) -> R {
        look(&self.shared.state.lock().value)
    }

    /// Waits for a newer value than the last one seen, and counts it as seen.
    pub(crate) async fn changed(&mut self) -> Result<(), Closed> {
        loop {
            // Made before the check, so that a change after the check wakes it.
            let changed = self.shared.changed.notified();
            {
                let state = self.shared.state.lock();
                if state.version != self.seen {
                    self.seen = state.version;
                    return Ok(());
                }
                if state.is_closed {
                    return Err(Closed);
                }
            }
            changed.await;
        }
    }
}

impl<T: Clone> Receiver<T> {
    /// Returns the value and counts it as seen.
    pub(crate) fn get(&mut self) -> T {
        let state = self.shared.state.lock();
        self.seen = state.version;
        state.value.clone()
    }

    /// Returns the value without counting it as seen.
    pub(crate) fn look(&self) -> T {
        self.peek(T::clone)
    }
}

impl<T> Clone for Receiver<T> {
    fn clone(&self) -> Self {
        self.shared.receivers.fetch_add(1, Ordering::Relaxed);
        Self { shared: Arc::clone(&self.shared), seen: self.seen }
    }
}

impl<T> Drop for Receiver<T> {
    fn drop(&mut self) {
        self.shared.receivers.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use parking_lot::Mutex;

    use super::channel;

    #[tokio::test]
    #[expect(clippy::disallowed_methods, reason = "the test waits for the tasks' ends")]
    async fn who_waits_is_woken_in_the_order_of_waiting() {
        let (sender, receiver) = channel(0);
        let woken = Arc::new(Mutex::new(Vec::new()));
        let tasks: Vec<_> = (0..30)
            .map(|index| {
                let (mut receiver, woken) = (receiver.clone(), Arc::clone(&woken));
                tokio::spawn(async move {
                    receiver.changed().await.unwrap();
                    woken.lock().push(index);
                })
            })
            .collect();
        tokio::task::yield_now().await;

        sender.send_if_modified(|value| {
            *value = 1;
            true
        });

        for task in tasks {
            task.await.unwrap();
        }
        assert_eq!(*woken.lock(), (0..30).collect::<Vec<_>>());
    }

    #[tokio::test]
    async fn a_last_value_is_seen_before_the_end() {
        let (sender, mut receiver) = channel(0);
        sender.send_if_modified(|value| {
            *value = 1;
            true
        });
        drop(sender);

        assert!(receiver.changed().await.is_ok());
        assert_eq!(receiver.get(), 1);
        assert!(receiver.changed().await.is_err());
    }

    #[tokio::test]
    async fn an_equal_value_is_no_change() {
        let (sender, mut receiver) = channel(0);
        sender.send_if_modified(|_| false);
        assert_eq!(sender.receiver_count(), 1);
        drop(sender);

        assert!(receiver.changed().await.is_err());
    }
}
