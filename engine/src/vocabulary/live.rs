use std::fmt;
use std::sync::Arc;

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
/// A worker gets one for a live input. Outside the engine,
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

    /// Returns the current value and counts it as seen.
    pub fn get(&mut self) -> Option<T> {
        let value = self.receiver.get()?;
        let part = self.part.as_ref().map(|part| part.select(&value));
        Some(part.unwrap_or_else(|| downcast::<T>(&value).clone()))
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
        Ok(self.get())
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
            if let Some(value) = self.get() {
                return Ok(value);
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
