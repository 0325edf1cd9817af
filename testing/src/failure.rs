//! Why a test cannot go on: what was expected, and what was seen instead.

use std::error::Error;
use std::fmt;

use crankcase_engine::{ChangeError, WithCauses};

use crate::subject::SUBJECT;

/// Why a test cannot go on: what was expected, and what was seen instead.
///
/// A test that returns it prints the text as it is, line by line.
#[derive(Clone, PartialEq, Eq)]
pub struct Failure {
    text: String,
}

impl Failure {
    /// Returns a failure with this text.
    pub fn new(text: impl Into<String>) -> Self {
        Self { text: text.into() }
    }

    /// Returns a failure that lists what was seen, one to a line.
    pub(crate) fn with_seen(expected: &str, seen: &[String]) -> Self {
        let mut text = expected.to_owned();
        text.push_str(if seen.is_empty() { "; nothing was seen" } else { "; seen:" });
        for line in seen {
            text.push_str("\n  ");
            text.push_str(line);
        }
        Self { text }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl fmt::Debug for Failure {
    /// Writes the text as it is: a test that fails prints this.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl Error for Failure {}

impl From<ChangeError> for Failure {
    /// Takes the text of a refusal with its cause.
    fn from(error: ChangeError) -> Self {
        let hint = hint(&error);
        Self::new(format!("{}{hint}", WithCauses(&error)))
    }
}

/// Says what to do about a stub that does not fit; nothing if that is not why a change was refused.
pub(crate) fn hint(error: &ChangeError) -> &'static str {
    match error {
        ChangeError::InputMismatch { user, .. } if *user == SUBJECT.as_str() => {
            "; a name of several outputs is given all of them at once, by `Stubs::values` or \
             `Harness::inputs`"
        }
        _ => "",
    }
}
