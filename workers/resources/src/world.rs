//! The facts, as resources and rules read and write them.

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use crankcase_workers::Secrets;
use serde_json::Value;

use crate::error::BoxError;

/// Versioned data that resources may read, and to which they may add facts of their own. See
/// [`Facilities::in_world`](crate::Facilities::in_world).
///
/// Paths are JSON pointers (RFC 6901).
#[async_trait]
pub trait World: fmt::Debug + Send + Sync {
    /// Returns the fact at a path, as this host sees it. Returns none if there is no fact.
    ///
    /// # Errors
    ///
    /// When `path` is not a JSON pointer.
    fn get(&self, path: &str) -> Result<Option<Value>, BoxError>;

    /// Returns the fact that is stored at a path, as [`set`](Self::set) has written it, without layers. Returns none if
    /// there is no fact.
    ///
    /// # Errors
    ///
    /// When `path` is not a JSON pointer.
    fn stored(&self, path: &str) -> Result<Option<Value>, BoxError>;

    /// Returns a value as it would be shown at a path, with the secrets hidden.
    ///
    /// # Errors
    ///
    /// When `path` is not a JSON pointer.
    fn shown(&self, path: &str, value: &Value) -> Result<Value, BoxError>;

    /// Returns the revision of the facts: a number that is different after each change.
    fn revision(&self) -> u64;

    /// Waits until the facts have another revision than this one. Cancel safe.
    async fn changed(&self, revision: u64);

    /// Writes a fact, which belongs to the owner from then on. None removes the fact.
    ///
    /// # Errors
    ///
    /// When the path has a fact of a user or of another owner, when the value does not fit a schema, or when the fact
    /// cannot be written. Nothing is changed then.
    ///
    /// # Cancel safety
    ///
    /// A write that has begun is made as a whole or not at all.
    async fn set(&self, owner: &str, path: &str, value: Option<Value>) -> Result<(), BoxError>;
}

/// A JSON Schema (2020-12) for the facts at one path.
#[derive(Debug, Clone, PartialEq)]
pub struct FactSchema {
    /// The path: a JSON pointer (RFC 6901).
    pub path: String,
    /// The schema.
    pub schema: Value,
}

/// Tells when a fact has changed. See [`Context::watch_fact`](crate::Context::watch_fact).
#[derive(Debug)]
pub struct FactWatch {
    world: Arc<dyn World>,
    path: String,
    revision: u64,
    /// The fact at the last look: as the host sees it, and as it is stored.
    before: [Option<Value>; 2],
}

impl FactWatch {
    pub(crate) fn new(world: Arc<dyn World>, path: &str) -> Result<Self, BoxError> {
        let (revision, before) = (world.revision(), [world.get(path)?, world.stored(path)?]);
        Ok(Self { world, path: path.to_owned(), revision, before })
    }

    /// Waits until the fact differs from that of the last look. Cancel safe.
    pub(crate) async fn changed(&mut self) {
        loop {
            self.world.changed(self.revision).await;
            self.revision = self.world.revision();
            // `new` has read the same path, so it is a JSON pointer.
            let (seen, stored) = (self.world.get(&self.path), self.world.stored(&self.path));
            let now = [seen, stored].map(Result::unwrap_or_default);
            if now != self.before {
                self.before = now;
                return;
            }
        }
    }
}

/// Writes a fact. Refuses a value with a secret that the readers of the facts would see.
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
