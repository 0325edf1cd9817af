//! The facts, as resources and rules read and write them.

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use crankcase_workers::Secrets;
use serde_json::Value;

use crate::base::error::BoxError;

/// Versioned data that resources may read, and to which they may add facts of their own. See
/// [`Facilities::in_world`](crate::Facilities::in_world).
///
/// Paths are JSON pointers (RFC 6901).
#[async_trait]
pub trait World: fmt::Debug + Send + Sync {
    /// Returns the facts as they are now. Later changes do not change them.
    ///
    /// # Errors
    ///
    /// When the facts cannot be opened.
    fn snapshot(&self) -> Result<Arc<dyn WorldSnapshot>, BoxError>;

    /// Returns an object that tells when later snapshots may have another fact at the path.
    ///
    /// # Errors
    ///
    /// When the path is invalid.
    fn watch(&self, path: &str) -> Result<Box<dyn FactChanges>, BoxError>;

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

/// The facts at one moment.
///
/// Paths are JSON pointers (RFC 6901).
pub trait WorldSnapshot: fmt::Debug + Send + Sync {
    /// Returns the revision of the facts: a number that is different after each change.
    fn revision(&self) -> u64;

    /// Returns the fact at a path, as this host sees it. Returns none if there is no fact.
    ///
    /// # Errors
    ///
    /// When `path` is not a JSON pointer.
    fn get(&self, path: &str) -> Result<Option<Value>, BoxError>;

    /// Returns the fact that is stored at a path, as [`World::set`] has written it, without layers. Returns none if
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

    /// Calls `visit` with each text in the facts that is a secret by the schemas.
    fn secrets(&self, visit: &mut dyn FnMut(&str));
}

/// A JSON Schema (2020-12) for the facts at one path.
#[derive(Debug, Clone, PartialEq)]
pub struct FactSchema {
    /// The path: a JSON pointer (RFC 6901).
    pub path: String,
    /// The schema.
    pub schema: Value,
}

/// Tells when the fact at one path changes.
#[async_trait]
pub trait FactChanges: fmt::Debug + Send + Sync {
    /// Waits until the fact has changed since the last call, or since the trait object was made. Cancel safe.
    async fn changed(&mut self);
}

/// A fact that is watched, from [`Context::watch_fact`](crate::Context::watch_fact), for
/// [`Watch::fact`](crate::Watch::fact).
#[derive(Debug)]
pub struct WatchedFact {
    pub(crate) path: String,
    pub(crate) changes: Box<dyn FactChanges>,
}

/// Writes a fact. Refuses a value with a secret that the readers of the facts would see.
pub(crate) async fn set_fact(
    (world, secrets): (&dyn World, &Secrets),
    owner: &str,
    path: &str,
    value: Option<Value>,
) -> Result<(), BoxError> {
    if let Some(value) = &value
        && holds_secret(&world.snapshot()?.shown(path, value)?, secrets)
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
