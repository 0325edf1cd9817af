//! The error of a setting that cannot be used.

use std::fmt;

use crankcase_engine::WithCauses;
use thiserror::Error;

/// A field of a configuration that cannot be used.
#[derive(Clone, PartialEq, Eq, Error)]
#[error("invalid value {value:?} of {field}: {reason}")]
pub struct ConfigError {
    field: &'static str,
    value: String,
    reason: &'static str,
}

impl fmt::Debug for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&WithCauses(self), f)
    }
}

impl ConfigError {
    pub(crate) fn new(field: &'static str, value: impl ToString, reason: &'static str) -> Self {
        Self { field, value: value.to_string(), reason }
    }

    /// Returns the name of the field at fault.
    pub fn field(&self) -> &'static str {
        self.field
    }
}
