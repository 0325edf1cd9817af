//! How a worker has ended.

use std::fmt;

use crate::vocabulary::error::SharedError;
use crate::vocabulary::exit::{EndKind, Outcome, Panicked};
use crate::vocabulary::settings::Severity;

/// The end of a worker, after the filters and the classifier were applied.
#[derive(Debug)]
pub(crate) struct Finish {
    pub(crate) kind: EndKind,
    /// The reason, if there is one.
    pub(crate) failure: Option<Box<Failure>>,
}

/// Why a worker ended with an error, with a panic, or because something is missing.
pub(crate) struct Failure {
    /// The text of the error, cut after 64 KiB.
    pub(crate) text: String,
    pub(crate) is_panic: bool,
    /// The backtrace of a panic, if it was noted.
    pub(crate) backtrace: Option<String>,
    /// The error and its severity, if it stops the engine.
    pub(crate) fatal: Option<(Severity, SharedError)>,
}

impl Failure {
    pub(crate) fn new(text: String, panicked: Option<&Panicked>) -> Self {
        let backtrace = panicked.and_then(Panicked::backtrace).map(str::to_owned);
        Self { text, is_panic: panicked.is_some(), backtrace, fatal: None }
    }
}

impl fmt::Debug for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// How a worker's future or thread has ended.
#[derive(Debug)]
pub(crate) enum TaskEnd {
    Outcome(Outcome),
    /// The future was dropped.
    Dropped,
    /// The operating system gave no thread for the worker.
    NoThread,
}
