use std::sync::Arc;

use serde_json::Value;

/// The state of a resource, as those that depend on it see it. Cheap to clone.
#[derive(Debug, Clone, PartialEq)]
pub struct State(Arc<Value>);

impl State {
    pub(super) fn new(value: Arc<Value>) -> Self {
        Self(value)
    }

    /// Returns the value.
    pub fn value(&self) -> &Value {
        &self.0
    }

    /// Returns the value, to be shared.
    pub(super) fn share(&self) -> Arc<Value> {
        Arc::clone(&self.0)
    }
}
