//! The state of a resource that is kept.

use std::fmt;
use std::sync::{Arc, OnceLock};

use serde_json::Value;

use crate::base::packed::Packed;
use crate::base::shape::Shape;

/// The state of a resource, as those that depend on it see it. Cheap to clone.
///
/// Its value is made when somebody asks for it: most resources have no dependents.
#[derive(Clone)]
pub struct State(Arc<Inner>);

struct Inner {
    packed: Packed,
    value: OnceLock<Arc<Value>>,
}

impl PartialEq for State {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0) || self.0.packed == other.0.packed
    }
}

/// Shows the names of the attributes, and no values.
impl fmt::Debug for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("State").field(&Shape::of(self.value())).finish()
    }
}

impl State {
    pub(crate) fn new(value: &Value) -> Self {
        Self(Arc::new(Inner { packed: Packed::new(value), value: OnceLock::new() }))
    }

    /// Returns the value.
    pub fn value(&self) -> &Value {
        self.kept()
    }

    /// Returns the value, to be shared.
    pub(crate) fn share(&self) -> Arc<Value> {
        Arc::clone(self.kept())
    }

    fn kept(&self) -> &Arc<Value> {
        let Inner { packed, value } = &*self.0;
        value.get_or_init(|| Arc::new(packed.value()))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::State;

    #[test]
    fn states_with_equal_values_are_equal() {
        let state = |size: u64| State::new(&json!({"path": "/srv", "size": size}));

        assert_eq!(state(1), state(1));
        assert_ne!(state(1), state(2));
    }
}
