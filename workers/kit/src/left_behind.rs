//! The error that names the children that do not end.

use std::fmt;

use thiserror::Error;

/// Children that ended neither when they were told to nor when their futures were to be dropped.
///
/// They block a thread, or never yield. An engine does not start their owner again before they have
/// really ended.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("children were left behind: {}", Names(names))]
pub struct LeftBehind {
    names: Vec<String>,
}

impl LeftBehind {
    pub(crate) fn new(mut names: Vec<String>) -> Self {
        names.sort_unstable();
        Self { names }
    }

    /// Returns the children's names, sorted.
    pub fn names(&self) -> &[String] {
        &self.names
    }
}

struct Names<'a>(&'a [String]);

impl fmt::Display for Names<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, name) in self.0.iter().enumerate() {
            let comma = if index == 0 { "" } else { ", " };
            write!(f, "{comma}{name:?}")?;
        }
        Ok(())
    }
}
