//! A worker that holds a value for others to read, follow and set.

use std::fmt;
use std::mem;
use std::sync::Arc;

use crankcase_engine::{Outcome, Stop, Worker};
use parking_lot::Mutex;
use tokio::sync::watch;

/// A worker that does nothing but hold a value, which others read and may set.
///
/// It passes what one worker knows to others that shall not depend on it, nor it on them: both
/// depend on the value.
///
/// # Examples
///
/// ```
/// use crankcase_engine::{Stop, Worker};
/// use crankcase_workers::Value;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// let level = Value::new("info".to_owned());
/// let handle = level.handle();
/// let mut changes = handle.subscribe();
/// let (stopper, stop) = Stop::pair();
/// let work = async {
///     handle.set("debug".to_owned());
///     assert_eq!(changes.wait_for(|level| level != "info").await.as_deref().ok(), Some(&"debug".into()));
///     stopper.stop();
/// };
/// let (outcome, ()) = tokio::join!(level.run(stop), work);
/// assert!(outcome.is_ok());
/// # }
/// ```
#[must_use = "a worker does nothing until it runs"]
pub struct Value<T> {
    handle: ValueHandle<T>,
}

impl<T: Clone + Send + Sync + 'static> Value<T> {
    /// Returns a worker that holds this value.
    pub fn new(value: T) -> Self {
        Self { handle: ValueHandle::new(value) }
    }

    /// Returns a worker that holds what a handle holds, so that the value outlives its workers.
    pub fn of(handle: ValueHandle<T>) -> Self {
        Self { handle }
    }

    /// Returns the handle that reads and sets the value.
    pub fn handle(&self) -> ValueHandle<T> {
        self.handle.clone()
    }
}

impl<T: Clone + Send + Sync + 'static> Worker for Value<T> {
    async fn run(self, stop: Stop) -> Outcome {
        stop.wait().await;
        Ok(())
    }
}

impl<T: fmt::Debug> fmt::Debug for Value<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Value").field(&self.handle).finish()
    }
}

/// Reads, follows and sets the value of a [`Value`]. Cheap to clone; it works without its worker.
pub struct ValueHandle<T> {
    shared: Arc<Shared<T>>,
}

/// The value, twice: no code of its own, such as its clone, runs under a lock.
struct Shared<T> {
    /// What those who follow it look at.
    shown: watch::Sender<T>,
    /// What is cloned. It is changed only while `shown` is.
    current: Mutex<Arc<T>>,
}

impl<T> Shared<T> {
    fn current(&self) -> Arc<T> {
        Arc::clone(&self.current.lock())
    }
}

impl<T: Clone + Send + Sync + 'static> ValueHandle<T> {
    /// Returns a handle with this value.
    pub fn new(value: T) -> Self {
        let current = Mutex::new(Arc::new(value.clone()));
        Self { shared: Arc::new(Shared { shown: watch::Sender::new(value), current }) }
    }

    /// Returns the value.
    pub fn get(&self) -> T {
        T::clone(&self.shared.current())
    }

    /// Sets the value; those who follow it are told, also if it is equal to the one before.
    pub fn set(&self, mut value: T) {
        let mut current = Arc::new(value.clone());
        self.shared.shown.send_modify(|shown| {
            mem::swap(shown, &mut value);
            mem::swap(&mut *self.shared.current.lock(), &mut current);
        });
        // The old value is dropped here, outside of the locks.
    }

    /// Follows the value, from the present one on.
    pub fn subscribe(&self) -> watch::Receiver<T> {
        self.shared.shown.subscribe()
    }
}

impl<T> Clone for ValueHandle<T> {
    fn clone(&self) -> Self {
        Self { shared: Arc::clone(&self.shared) }
    }
}

impl<T: fmt::Debug> fmt::Debug for ValueHandle<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ValueHandle").field(&self.shared.current()).finish()
    }
}
