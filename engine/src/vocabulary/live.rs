//! The newest value behind a name, for those who follow it while its workers come and go.

use std::fmt;
use std::sync::Arc;

use parking_lot::Mutex;

use crate::vocabulary::follow;
use crate::vocabulary::selection::Select;
use crate::vocabulary::value::{Value, downcast};

/// The engine of a followed value is gone, so no other value will come.
#[derive(Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("cannot follow the value any further: its engine is gone")]
pub struct EngineGone;

impl fmt::Debug for EngineGone {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Follows the value behind a name: `None` while no worker offers it.
///
/// A worker gets one for a live input, and a [`Latest`] for a live input that is required. Outside the engine,
/// [`OutputRequest::follow`](crate::OutputRequest::follow) returns one. A `Live` keeps no worker and
/// no engine alive. A slow reader may miss values, but never the last one.
pub struct Live<T> {
    receiver: follow::Receiver<Option<Value>>,
    /// The part that is followed; `None` for the whole value.
    part: Option<Arc<dyn Select<T>>>,
    /// Keeps the name in an engine that nobody in it follows.
    pin: Option<Arc<dyn Send + Sync>>,
}

impl<T: Clone + 'static> Live<T> {
    pub(crate) fn new(
        receiver: follow::Receiver<Option<Value>>,
        part: Option<Arc<dyn Select<T>>>,
    ) -> Self {
        Self { receiver, part, pin: None }
    }

    /// Keeps the pin for as long as this and its clones live.
    pub(crate) fn pinned(self, pin: impl Send + Sync + 'static) -> Self {
        Self { pin: Some(Arc::new(pin)), ..self }
    }

    /// Returns the current value. Does not count it as seen: [`changed`](Self::changed) still
    /// returns it if it has come since the last call of `changed` or `value`.
    pub fn get(&self) -> Option<T> {
        self.receiver.look().map(|value| self.read(&value))
    }

    fn read(&self, value: &Value) -> T {
        let part = self.part.as_ref().map(|part| part.select(value));
        part.unwrap_or_else(|| downcast::<T>(value).clone())
    }

    /// Waits for a change after the last value seen. Returns the new value, or `None` if there is
    /// no value any more, and counts it as seen.
    ///
    /// # Errors
    ///
    /// When the engine is gone and its last change was seen. Every later call then fails at once.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: a value that was not returned does not count as seen.
    pub async fn changed(&mut self) -> Result<Option<T>, EngineGone> {
        self.receiver.changed().await.map_err(|_| EngineGone)?;
        let value = self.receiver.get();
        Ok(value.map(|value| self.read(&value)))
    }

    /// Waits until there is a value, returns it and counts it as seen.
    ///
    /// # Errors
    ///
    /// When the engine is gone and left no value.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe.
    pub async fn value(&mut self) -> Result<T, EngineGone> {
        loop {
            if let Some(value) = self.receiver.get() {
                return Ok(self.read(&value));
            }
            self.receiver.changed().await.map_err(|_| EngineGone)?;
        }
    }
}

impl<T> Clone for Live<T> {
    fn clone(&self) -> Self {
        Self { receiver: self.receiver.clone(), part: self.part.clone(), pin: self.pin.clone() }
    }
}

impl<T> fmt::Debug for Live<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Live").field("is_some", &self.receiver.peek(Option::is_some)).finish()
    }
}

/// Follows the value behind a name that had a value at the worker's start.
///
/// A worker gets one for a live input that is required. While no worker offers a value, it gives the
/// last one that it has given before, which is the first one if it was not asked since. It keeps
/// that value alive. If a value must not outlive its worker, such as a lock on a file, follow it by
/// [`Live`].
///
/// # Examples
///
/// ```
/// use crankcase_engine::{Engine, Latest, Manifold, Name};
///
/// const LIMIT: Name<u32> = Name::new("limit");
/// const QUEUE: Name<u32> = Name::new("queue");
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let queue = Manifold::builder().inputs(LIMIT.live().required()).offers::<(u32,)>().run(
///     |limit: Latest<u32>, up| async move {
///         up.ready((limit.get() * 2,)).wait().await;
///         Ok(())
///     },
/// );
/// let engine = Engine::builder().build()?;
/// engine.install(QUEUE, queue).await?;
/// engine.provide(LIMIT, 21).await?;
/// assert_eq!(engine.output(QUEUE).await?, 42);
/// engine.stop().await?;
/// # Ok(()) }
/// ```
pub struct Latest<T> {
    live: Live<T>,
    /// The last value that was given.
    last: Mutex<Value>,
}

impl<T: Clone + 'static> Latest<T> {
    pub(crate) fn new(live: Live<T>, first: Value) -> Self {
        Self { live, last: Mutex::new(first) }
    }

    /// Returns the current value, or the last one given if there is none. A later call of
    /// [`changed`](Self::changed) may return the same value again.
    pub fn get(&self) -> T {
        let (value, before) = {
            // Looked at under the lock, so that an older value never takes the place of a newer one.
            let mut last = self.last.lock();
            let before = self.live.receiver.look().map(|now| std::mem::replace(&mut *last, now));
            (Arc::clone(&last), before)
        };
        drop(before);
        self.live.read(&value)
    }

    /// Waits until a worker offers a value that came after the last call of `changed`, or after the
    /// worker's start. The value may be equal to the one before. Passes over the times when there is
    /// none.
    ///
    /// # Errors
    ///
    /// When the engine is gone and its last change was seen. Every later call then fails at once.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: a value that was not returned does not count as seen.
    pub async fn changed(&mut self) -> Result<T, EngineGone> {
        loop {
            self.live.receiver.changed().await.map_err(|_| EngineGone)?;
            if let Some(value) = self.live.receiver.get() {
                let before = std::mem::replace(self.last.get_mut(), Arc::clone(&value));
                drop(before);
                return Ok(self.live.read(&value));
            }
        }
    }
}

impl<T> Clone for Latest<T> {
    fn clone(&self) -> Self {
        let last = Arc::clone(&self.last.lock());
        Self { live: self.live.clone(), last: Mutex::new(last) }
    }
}

impl<T> fmt::Debug for Latest<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Latest").finish_non_exhaustive()
    }
}
