//! The errors that all parts of the engine share, and how an error is written with its causes.

use std::error::Error;
use std::fmt;
use std::sync::Arc;

/// An error of any type, boxed.
pub type BoxError = Box<dyn Error + Send + Sync + 'static>;

/// Writes an error with its causes on one line, separated by colons.
///
/// The error types of all crates write this form as `Debug`: a `main` that returns an error prints
/// it with `Debug`.
///
/// # Examples
///
/// ```
/// use crankcase_engine::WithCauses;
///
/// #[derive(Debug, thiserror::Error)]
/// #[error("cannot read the config")]
/// struct Unread(#[source] std::io::Error);
///
/// let error = Unread(std::io::Error::other("the disk is gone"));
/// assert_eq!(WithCauses(&error).to_string(), "cannot read the config: the disk is gone");
/// ```
#[derive(Debug, Clone, Copy)]
pub struct WithCauses<'a>(pub &'a (dyn Error + 'static));

impl fmt::Display for WithCauses<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut next = Some(self.0);
        while let Some(error) = next {
            if let Some(shared) = error.downcast_ref::<SharedError>() {
                return f.write_str(shared.text());
            }
            write!(f, "{error}")?;
            next = error.source();
            if next.is_some() {
                f.write_str(": ")?;
            }
        }
        Ok(())
    }
}

/// The error of a config with an invalid field.
#[derive(Clone, PartialEq, Eq)]
pub struct ConfigError {
    field: &'static str,
    value: String,
    expected: &'static str,
}

impl ConfigError {
    /// Returns the error of a field, with its value and what is expected.
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

impl fmt::Debug for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Error for ConfigError {}

/// A worker's error that can be cloned.
///
/// [`WithCauses`] and `Debug` write the text that the worker's task has made. They do not format
/// the error again.
#[derive(Clone)]
pub struct SharedError(Arc<Shared>);

struct Shared {
    error: BoxError,
    /// The error with its causes, as the worker's task has written it. To write it again would run
    /// foreign code, which may block or panic.
    text: String,
}

impl SharedError {
    pub(crate) fn new(error: BoxError, text: String) -> Self {
        Self(Arc::new(Shared { error, text }))
    }

    /// Returns the error.
    pub fn get(&self) -> &(dyn Error + Send + Sync + 'static) {
        &*self.0.error
    }

    /// Returns the error with its causes as text.
    pub(crate) fn text(&self) -> &str {
        &self.0.text
    }
}

impl fmt::Debug for SharedError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.text())
    }
}

impl fmt::Display for SharedError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self.get(), f)
    }
}

impl Error for SharedError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.get().source()
    }
}
