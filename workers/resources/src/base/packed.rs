//! Values that are kept for long and seldom asked for.

use std::fmt;

use serde_json::Value;

/// How deep a value may be whose text can be read again: less than the limit of `serde_json`.
const MAX_DEPTH: usize = 100;

/// A value as text, which takes up to a fifth of the memory of a value with maps.
pub(crate) enum Packed {
    Text(Box<str>),
    /// A value that is too deep to be read from its text.
    Deep(Box<Value>),
}

/// As with values, the order of attributes does not count.
impl PartialEq for Packed {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Text(one), Self::Text(another)) if one == another => true,
            _ => self.value() == other.value(),
        }
    }
}

/// Shows no value, as it may be a secret.
impl fmt::Debug for Packed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Packed").finish_non_exhaustive()
    }
}

impl Packed {
    pub(crate) fn new(value: &Value) -> Self {
        match is_within(value, MAX_DEPTH) {
            true => Self::Text(value.to_string().into()),
            false => Self::Deep(Box::new(value.clone())),
        }
    }

    /// Returns the value, made anew.
    pub(crate) fn value(&self) -> Value {
        match self {
            Self::Text(text) => {
                serde_json::from_str(text).expect("the text was written from a value")
            }
            Self::Deep(value) => Value::clone(value),
        }
    }
}

/// Returns whether a value has at most so many levels.
fn is_within(value: &Value, levels: usize) -> bool {
    let Some(below) = levels.checked_sub(1) else { return false };
    match value {
        Value::Array(items) => items.iter().all(|item| is_within(item, below)),
        Value::Object(map) => map.values().all(|value| is_within(value, below)),
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::Packed;

    #[test]
    fn what_is_packed_is_the_same_when_it_is_unpacked() {
        let value = json!({
            "text": "a \"b\"\n\u{e9}", "large": u64::MAX, "small": i64::MIN, "part": 0.1,
            "whole": 1.0, "none": null, "list": [true, {}],
        });

        assert_eq!(Packed::new(&value).value(), value);
    }

    #[test]
    fn the_order_of_attributes_does_not_count() {
        let packed = |text: &str| serde_json::from_str(text).map(|value| Packed::new(&value));
        let [one, another, other] = [
            r#"{"path": "/srv", "size": 1}"#,
            r#"{"size": 1, "path": "/srv"}"#,
            r#"{"size": 2, "path": "/srv"}"#,
        ]
        .map(|text| packed(text).expect("it is JSON"));

        assert!(one == another);
        assert!(one != other);
    }

    #[test]
    fn what_is_packed_may_be_deep() {
        let value = (0..300).fold(Value::Null, |value, _| json!([value]));

        assert_eq!(Packed::new(&value).value(), value);
    }
}
