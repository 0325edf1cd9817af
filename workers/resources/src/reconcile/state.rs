//! The state of a resource that is kept.

use std::fmt;
use std::sync::{Arc, OnceLock};

use serde_json::Value;

use crate::shape::Shape;

/// How deep a value may be whose text can be read again: less than the limit of `serde_json`.
const MAX_DEPTH: usize = 100;

/// The state of a resource, as those that depend on it see it. Cheap to clone.
///
/// It is kept as text until somebody asks for the value: most resources have no dependents, and the
/// value takes five times the memory.
#[derive(Clone)]
pub struct State(Arc<Kept>);

struct Kept {
    text: Box<str>,
    value: OnceLock<Arc<Value>>,
}

/// States are equal if they are written alike: a kind writes the attributes always in one order.
impl PartialEq for State {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0) || self.0.text == other.0.text
    }
}

/// Shows the names of the attributes, and no values.
impl fmt::Debug for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("State").field(&Shape::of(self.value())).finish()
    }
}

impl State {
    pub(super) fn new(value: &Arc<Value>) -> Self {
        let (text, kept) = (value.to_string().into(), OnceLock::new());
        if !is_within(value, MAX_DEPTH) {
            let _first = kept.set(Arc::clone(value));
        }
        Self(Arc::new(Kept { text, value: kept }))
    }

    /// Returns the value.
    pub fn value(&self) -> &Value {
        self.kept()
    }

    /// Returns the value, to be shared.
    pub(super) fn share(&self) -> Arc<Value> {
        Arc::clone(self.kept())
    }

    fn kept(&self) -> &Arc<Value> {
        let Kept { text, value } = &*self.0;
        value.get_or_init(|| {
            Arc::new(serde_json::from_str(text).expect("the text was written from a value"))
        })
    }
}

/// Returns whether a value has at most so many levels.
fn is_within(value: &Value, depth: usize) -> bool {
    let Some(below) = depth.checked_sub(1) else { return false };
    match value {
        Value::Array(items) => items.iter().all(|item| is_within(item, below)),
        Value::Object(map) => map.values().all(|value| is_within(value, below)),
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::{Value, json};

    use super::State;

    #[test]
    fn a_state_has_the_value_that_it_was_made_of() {
        let value = Arc::new(json!({
            "text": "a \"b\"\n\u{e9}", "large": u64::MAX, "small": i64::MIN, "part": 0.1,
            "whole": 1.0, "none": null, "list": [true, {}],
        }));

        assert_eq!(State::new(&value).value(), &*value);
    }

    #[test]
    fn a_state_may_be_deep() {
        let value = (0..300).fold(Value::Null, |value, _| json!([value]));
        let value = Arc::new(value);

        assert_eq!(State::new(&value).value(), &*value);
    }

    #[test]
    fn states_with_equal_values_are_equal() {
        let state = |size: u64| State::new(&Arc::new(json!({"path": "/srv", "size": size})));

        assert_eq!(state(1), state(1));
        assert_ne!(state(1), state(2));
    }
}
