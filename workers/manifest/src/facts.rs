//! The facts that expressions see, and their source.

use std::fmt;
use std::future::pending;
use std::sync::Arc;

use async_trait::async_trait;
use serde_json::{Map, Value};

/// The source of `facts` in expressions.
///
/// # Requirements
///
/// - Two values of [`SeenFacts`] with the same revision are equal.
#[async_trait]
pub trait SiteFacts: fmt::Debug + Send + Sync {
    /// Returns the facts as they are now. May block for a moment.
    fn current(&self) -> SeenFacts;

    /// Waits until the facts have another revision than this one. Cancel safe.
    async fn changed(&self, revision: u64);
}

/// The `facts` of expressions at one moment.
#[derive(Clone, PartialEq)]
pub struct SeenFacts {
    /// The revision of the facts: another number after each change.
    pub revision: u64,
    /// The facts: a map.
    pub value: Arc<Value>,
    /// Where the secrets are in the facts: the names that lead to each.
    pub secrets: Vec<Vec<String>>,
    /// The layers of the host, the one with the highest priority last. They are in the facts already: what a layer sets
    /// stays, whatever a resource writes below the layers.
    pub layers: Vec<SeenLayer>,
}

/// A layer of a host.
#[derive(Clone, PartialEq)]
pub struct SeenLayer {
    /// The JSON pointer to the layer, among all facts.
    pub pointer: String,
    /// The facts that the layer sets: a map.
    pub facts: Arc<Value>,
}

/// Shows no facts, as some of them may be secrets.
impl fmt::Debug for SeenLayer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SeenLayer").field("pointer", &self.pointer).finish_non_exhaustive()
    }
}

/// Shows no facts, as some of them may be secrets.
impl fmt::Debug for SeenFacts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SeenFacts").field("revision", &self.revision).finish_non_exhaustive()
    }
}

impl Default for SeenFacts {
    /// Returns no facts.
    fn default() -> Self {
        let value = Arc::new(Value::Object(Map::new()));
        Self { revision: 0, value, secrets: Vec::new(), layers: Vec::new() }
    }
}

/// A source that never has any facts.
#[derive(Debug)]
pub(crate) struct NoFacts;

#[async_trait]
impl SiteFacts for NoFacts {
    fn current(&self) -> SeenFacts {
        SeenFacts::default()
    }

    async fn changed(&self, _revision: u64) {
        pending::<()>().await;
    }
}
