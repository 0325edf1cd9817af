//! What resources know and tell beyond their own machine part: facts.

use std::fmt;

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
