//! How a worker has ended.

use std::fmt;

use crate::vocabulary::error::SharedError;
use crate::vocabulary::exit::{EndKind, Outcome};
use crate::vocabulary::settings::Severity;

/// A judged end.
#[derive(Debug)]
pub(crate) struct Finish {
    pub(crate) kind: EndKind,
    /// Why, if there is anything to say.
    pub(crate) failure: Option<Box<Failure>>,
}

/// Why a worker ended otherwise than by being done.
pub(crate) struct Failure {
    /// As it is kept: cut after 64 KiB.
    pub(crate) text: String,
    pub(crate) is_panic: bool,
    /// The error and how grave it is, if it stops the engine.
    pub(crate) fatal: Option<(Severity, SharedError)>,
}

impl fmt::Debug for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// How a worker's future, or its thread, has come to its end.
#[derive(Debug)]
pub(crate) enum TaskEnd {
    Outcome(Outcome),
    /// It was dropped.
    Dropped,
    /// There is no thread for it.
    NoThread,
}
