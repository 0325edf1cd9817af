//! What resources know and tell beyond their own machine part: facts.

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use crankcase_workers::Secrets;
use serde_json::Value;

use crate::error::BoxError;

/// Versioned data that resources may read, and to which they may add what is their own. See
/// [`Facilities::in_world`](crate::Facilities::in_world).
///
/// Paths are JSON pointers (RFC 6901).
#[async_trait]
pub trait World: fmt::Debug + Send + Sync {
    /// Returns what is at a path, as this host sees it; none if nothing is.
    ///
    /// # Errors
    ///
    /// When the path is none.
    fn get(&self, path: &str) -> Result<Option<Value>, BoxError>;

    /// Returns what is stored at a path, which is what [`set`](Self::set) has written; none if nothing is.
    ///
    /// # Errors
    ///
    /// When the path is none.
    fn stored(&self, path: &str) -> Result<Option<Value>, BoxError>;

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
    /// What was seen and stored there when it was looked at last.
    before: [Option<Value>; 2],
}

impl FactWatch {
    pub(crate) fn new(world: Arc<dyn World>, path: &str) -> Result<Self, BoxError> {
        let (revision, before) = (world.revision(), [world.get(path)?, world.stored(path)?]);
        Ok(Self { world, path: path.to_owned(), revision, before })
    }

    /// Waits until the fact is another one than when it was waited for last. Cancel safe.
    pub(crate) async fn changed(&mut self) {
        loop {
            self.world.changed(self.revision).await;
            self.revision = self.world.revision();
            // The path was read before, and is one.
            let (seen, stored) = (self.world.get(&self.path), self.world.stored(&self.path));
            let now = [seen, stored].map(Result::unwrap_or_default);
            if now != self.before {
                self.before = now;
                return;
            }
        }
    }
}

/// Writes a fact, unless a secret in it would be shown.
pub(crate) async fn set_fact(
    (world, secrets): (&dyn World, &Secrets),
    owner: &str,
    path: &str,
    value: Option<Value>,
) -> Result<(), BoxError> {
    if let Some(value) = &value
        && holds_secret(&world.shown(path, value)?, secrets)
    {
        let why = "a secret would be shown to everybody who reads facts";
        let help = "a schema makes it \"sensitive\" there: see \"crankcase facts schema\"";
        return Err(format!("{path}: {why}; {help}").into());
    }
    world.set(owner, path, value).await
}

fn holds_secret(value: &Value, secrets: &Secrets) -> bool {
    match value {
        Value::String(text) => secrets.are_in(text),
        Value::Number(number) => secrets.are_in(&number.to_string()),
        Value::Array(items) => items.iter().any(|item| holds_secret(item, secrets)),
        Value::Object(map) => {
            map.iter().any(|(name, value)| secrets.are_in(name) || holds_secret(value, secrets))
        }
        Value::Null | Value::Bool(_) => false,
    }
}
