//! Versions, and the texts that go with a change.

use std::fmt;

use serde_json::Value;

use crate::operation::described;

/// The longest name of an author, and the longest reason, in characters.
pub const LONGEST_REASON: usize = 1000;

/// The version of the facts: a number from 1 to 9,223,372,036,854,775,807. The author of an update chooses it. It
/// only grows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Version(u64);

impl Version {
    /// Returns the version with this number; none if the number is out of range.
    pub fn new(number: u64) -> Option<Self> {
        (1..=i64::MAX as u64).contains(&number).then_some(Self(number))
    }

    /// Returns the number.
    pub fn get(self) -> u64 {
        self.0
    }

    /// Reads the version of a document.
    ///
    /// # Errors
    ///
    /// Why the value is no version.
    pub fn of_value(value: &Value) -> Result<Self, String> {
        let range = "a whole number from 1 to 9223372036854775807";
        match value.as_u64().map(Self::new) {
            Some(Some(version)) => Ok(version),
            _ if value.is_number() => Err(format!("a version is {range}, not {value}")),
            _ => Err(format!("a version is {range}, not {}", described(value))),
        }
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Checks a text for the history: it must be one line of bounded length.
pub(crate) fn check_reason(text: &str) -> Result<&str, &'static str> {
    if text.chars().count() > LONGEST_REASON {
        return Err("is longer than 1,000 characters");
    }
    if text.chars().any(char::is_control) {
        return Err("has control characters; it is one line");
    }
    Ok(text)
}
