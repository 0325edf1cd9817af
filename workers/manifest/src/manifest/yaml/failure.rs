//! The ends of a parse, with their places and reasons.

use granit_parser::{ErrorKind, ScanError, Span};

use crate::manifest::problem::Hint;

/// How deep collections may nest.
pub(super) const MAX_DEPTH: usize = 64;

/// A failure that ends the parse of a file.
pub(super) struct Failure {
    pub(super) offset: usize,
    pub(super) message: String,
    pub(super) hint: Hint,
}

impl Failure {
    pub(super) fn new(offset: usize, message: impl Into<String>) -> Self {
        Self { offset, message: message.into(), hint: Hint::default() }
    }
}

pub(super) fn not_a_key(offset: usize) -> Failure {
    let hint = Hint::default().or("a text with \"{{ }}\" in it is written in quotes");
    let message = "the key of a map is a text, not a collection or an alias".to_owned();
    Failure { offset, message, hint }
}

pub(super) fn too_deep(offset: usize) -> Failure {
    Failure::new(offset, format!("nested deeper than {MAX_DEPTH} levels"))
}

pub(super) fn scan_failure(err: &ScanError) -> Failure {
    let offset = Span::empty(*err.marker()).byte_range().unwrap_or_default().start;
    match err.kind() {
        ErrorKind::RecursionLimitExceeded => too_deep(offset),
        kind => Failure::new(offset, format!("not YAML: {kind}")),
    }
}
