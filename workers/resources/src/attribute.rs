use std::fmt;

use crate::params::Wrong;

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
