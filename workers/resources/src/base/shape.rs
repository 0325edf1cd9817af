//! What debug texts show of configs, states and other values.

use std::fmt;

use serde_json::{Map, Value};

/// The shape of a value, for debug texts: its kind, and of a map the names. No other part of the value
/// is shown, because it may be a secret.
///
/// # Examples
///
/// ```
/// use crankcase_resources::dynamic::Shape;
///
/// let state = serde_json::json!({"mode": "0600", "key": "hunter2"});
/// assert_eq!(format!("{:?}", Shape::of(&state)), r#"{"mode", "key"}"#);
/// assert_eq!(format!("{:?}", Shape::of(&state["key"])), "a text");
/// ```
#[derive(Clone, Copy)]
pub struct Shape<'a>(Shaped<'a>);

#[derive(Clone, Copy)]
enum Shaped<'a> {
    Map(&'a Map<String, Value>),
    Other(&'a Value),
}

impl<'a> Shape<'a> {
    /// Returns the shape of a value.
    pub fn of(value: &'a Value) -> Self {
        match value {
            Value::Object(map) => Self::of_map(map),
            other => Self(Shaped::Other(other)),
        }
    }

    /// Returns the shape of a map, such as a config.
    pub fn of_map(map: &'a Map<String, Value>) -> Self {
        Self(Shaped::Map(map))
    }
}

impl fmt::Debug for Shape<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Shaped::Map(map) => f.debug_set().entries(map.keys()).finish(),
            Shaped::Other(Value::Array(items)) => write!(f, "a list of {}", items.len()),
            Shaped::Other(Value::String(_)) => f.write_str("a text"),
            Shaped::Other(Value::Number(_)) => f.write_str("a number"),
            Shaped::Other(Value::Bool(_)) => f.write_str("a boolean"),
            Shaped::Other(Value::Null) => f.write_str("null"),
            Shaped::Other(Value::Object(map)) => Self::of_map(map).fmt(f),
        }
    }
}
