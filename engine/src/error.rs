use std::fmt;

/// A config whose field has a value that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigError {
    field: &'static str,
    value: String,
    expected: &'static str,
}

impl ConfigError {
    /// Returns the error of a field, with its value and what would be right.
    pub fn new(field: &'static str, value: impl fmt::Display, expected: &'static str) -> Self {
        Self { field, value: value.to_string(), expected }
    }

    /// Returns the field's path, as in `backoff.factor`.
    pub fn field(&self) -> &'static str {
        self.field
    }
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} is {}; expected {}", self.field, self.value, self.expected)
    }
}

impl std::error::Error for ConfigError {}
