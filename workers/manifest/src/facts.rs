use std::fmt;
use std::future::pending;
use std::sync::Arc;

use async_trait::async_trait;
use serde_json::{Map, Value};

/// Where expressions get `facts` from.
///
/// # Requirements
///
/// - Two values of [`SeenFacts`] with one revision are equal.
#[async_trait]
pub trait SiteFacts: fmt::Debug + Send + Sync {
    /// Returns the facts as they are now. May block for a moment.
    fn current(&self) -> SeenFacts;

    /// Waits until the facts have another revision than this one. Cancel safe.
    async fn changed(&self, revision: u64);
}

/// What expressions see as `facts`.
#[derive(Debug, Clone, PartialEq)]
pub struct SeenFacts {
    /// Tells these facts from those before and after.
    pub revision: u64,
    /// The facts: a map.
    pub value: Arc<Value>,
    /// Where secrets are in them: the names that lead to each.
    pub secrets: Vec<Vec<String>>,
}

impl Default for SeenFacts {
    /// Returns no facts.
    fn default() -> Self {
        Self { revision: 0, value: Arc::new(Value::Object(Map::new())), secrets: Vec::new() }
    }
}

/// No facts, for ever.
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
