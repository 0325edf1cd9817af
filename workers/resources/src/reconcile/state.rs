//! The state of a resource, for others.

use std::fmt;
use std::sync::Arc;

use serde_json::Value;

use crate::shape::Shape;

/// The state of a resource, as those that depend on it see it. Cheap to clone.
#[derive(Clone, PartialEq)]
pub struct State(Arc<Value>);

/// Shows the names of the attributes, and no values.
impl fmt::Debug for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("State").field(&Shape::of(&self.0)).finish()
    }
}

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
