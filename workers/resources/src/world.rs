//! What resources know and tell beyond their own machine part: facts.

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use serde_json::Value;

use crate::error::BoxError;

/// Versioned data that resources may read, and to which they may add what is their own. See
/// [`Facilities::in_world`](crate::Facilities::in_world).
///
/// Paths are JSON pointers (RFC 6901).
#[async_trait]
pub trait World: fmt::Debug + Send + Sync {
    /// Returns what is at a path; none if nothing is.
    ///
    /// # Errors
    ///
    /// When the path is none.
    fn get(&self, path: &str) -> Result<Option<Value>, BoxError>;

    /// Returns a value as it is shown where it is put at a path, without what is secret there.
    ///
    /// # Errors
    ///
    /// When the path is none.
    fn shown(&self, path: &str, value: &Value) -> Result<Value, BoxError>;

    /// Returns a number that is another one after each change.
    fn revision(&self) -> u64;

    /// Waits until the number is another one. Cancel safe.
    async fn changed(&self, revision: u64);

    /// Writes a value that is the owner's own from then on. None removes it.
    ///
    /// # Errors
    ///
    /// When something is there that is not the owner's, when the value does not fit, or when it cannot be
    /// written: nothing is changed then.
    ///
    /// # Cancel safety
    ///
    /// A write that was begun is made as a whole or not at all.
    async fn set(&self, owner: &str, path: &str, value: Option<Value>) -> Result<(), BoxError>;
}

/// Tells when a fact is another one. See [`Context::watch_fact`](crate::Context::watch_fact).
#[derive(Debug)]
pub struct FactWatch {
    world: Arc<dyn World>,
    path: String,
    revision: u64,
    /// What was there when it was looked at last.
    before: Option<Value>,
}

impl FactWatch {
    pub(crate) fn new(world: Arc<dyn World>, path: &str) -> Result<Self, BoxError> {
        let (revision, before) = (world.revision(), world.get(path)?);
        Ok(Self { world, path: path.to_owned(), revision, before })
    }

    /// Waits until the fact is another one than when it was waited for last. Cancel safe.
    pub(crate) async fn changed(&mut self) {
        loop {
            self.world.changed(self.revision).await;
            self.revision = self.world.revision();
            // The path was read before, and is one.
            let now = self.world.get(&self.path).unwrap_or_default();
            if now != self.before {
                self.before = now;
                return;
            }
        }
    }
}
