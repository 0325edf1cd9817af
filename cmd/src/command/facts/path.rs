//! The path of a fact on the command line.

use crankcase_facts::{Pointer, PointerError};

/// Reads a path to a fact.
pub(super) fn path(text: &str) -> Result<Pointer, String> {
    // A shell completes the path of a map with a "/" at its end.
    let text = text.strip_suffix('/').filter(|it| !matches!(*it, "" | "/")).unwrap_or(text);
    text.parse().map_err(|error: PointerError| error.to_string())
}
