//! The exit codes, the same for every command, and the error that brings its own.

/// All is done.
pub(crate) const DONE: u8 = 0;

/// The run failed, or something is in trouble.
pub(crate) const FAILED: u8 = 1;

/// Done, and something changed or would change.
pub(crate) const CHANGED: u8 = 2;

/// A signal came before it was done.
pub(crate) const INTERRUPTED: u8 = 130;

/// Invalid input; nothing was executed.
pub(crate) const INVALID: u8 = 65;

/// Wrong usage.
pub(crate) const USAGE: u8 = 64;

/// No agent is reachable.
pub(crate) const NO_AGENT: u8 = 69;

/// Something else stands against it.
pub(crate) const CONFLICT: u8 = 75;

/// An error of a command, with its exit code. `failure` knows those of other errors.
#[derive(Debug, thiserror::Error)]
#[error("{text}")]
pub(crate) struct ExitError {
    pub(crate) code: u8,
    text: String,
}

impl ExitError {
    pub(crate) fn new(code: u8, text: impl Into<String>) -> Self {
        Self { code, text: text.into() }
    }
}
