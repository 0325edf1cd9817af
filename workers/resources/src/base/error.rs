//! What may be wrong with a value, a config, or the work on a resource.

use std::fmt;

use serde_json::Value;

use crate::base::text::{cut, shown};

/// An error of any type, boxed.
pub type BoxError = Box<dyn std::error::Error + Send + Sync + 'static>;

/// What is wrong with a value.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
#[non_exhaustive]
pub struct Wrong {
    /// What is wrong with it, and what would be right.
    pub message: String,
    /// The part of the value that is at fault, as it is shown, if it is not the whole value.
    pub value: Option<String>,
    /// What to write in its place, if something right is near.
    pub suggestion: Option<String>,
    /// What else is wrong with it.
    pub also: Vec<Self>,
}

impl From<String> for Wrong {
    fn from(message: String) -> Self {
        Self { message, value: None, suggestion: None, also: Vec::new() }
    }
}

impl Wrong {
    /// Adds the name under which the value stands in a map.
    pub(crate) fn of(self, name: &str, item: &Value) -> Self {
        let shown = shown(item);
        let message = match self.message.strip_prefix(&format!("{shown} is ")) {
            Some(rest) => format!("{shown} of \"{}\" is {rest}", cut(name)),
            None => format!("\"{}\": {}", cut(name), self.message),
        };
        let value = self.value.or(Some(shown));
        Self { message, value, ..self }
    }

    /// Makes one error of several; `None` of none.
    pub(crate) fn all(wrong: impl IntoIterator<Item = Self>) -> Option<Self> {
        wrong.into_iter().reduce(|mut first, other| {
            first.also.push(other);
            first
        })
    }
}

/// One thing that is wrong with a config.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub struct AttributeError {
    /// The attribute at fault.
    pub attribute: String,
    /// What is wrong with it and what would be right.
    pub message: String,
    /// The value at fault, if it is one: as it was written if it is a text, else as JSON.
    pub value: Option<String>,
    /// What to write in place of the value, if something right is near.
    pub suggestion: Option<String>,
}

impl AttributeError {
    /// Returns an error that names no value.
    pub fn new(attribute: &str, message: String) -> Self {
        Self::of(attribute, message.into())
    }

    /// Returns the error of an attribute with this value.
    pub fn of(attribute: &str, wrong: Wrong) -> Self {
        let Wrong { message, value, suggestion, .. } = wrong;
        Self { attribute: attribute.to_owned(), message, value, suggestion }
    }
}

impl fmt::Display for AttributeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.attribute, self.message)
    }
}
