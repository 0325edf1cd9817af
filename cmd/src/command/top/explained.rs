//! Why a worker is as it is, and whether that answer still holds.

use crankcase_status::wire::Why;
use tokio::time::Instant;

use super::row::Row;

/// Why a worker is as it is.
#[derive(Debug)]
pub(super) struct Explained {
    pub(super) path: String,
    /// The worker's state and cause when it was asked.
    of: Option<(String, String)>,
    pub(super) why: Result<Why, String>,
    pub(super) at: Instant,
    /// Whether a worker of the chain has changed since.
    pub(super) is_stale: bool,
}

impl Explained {
    /// Returns what the agent has said of a worker at this moment.
    pub(super) fn new(
        (path, row): (&str, Option<&Row>),
        why: Result<Why, String>,
        at: Instant,
    ) -> Self {
        let of = row.map(|row| (row.state.clone(), row.cause.clone()));
        Self { path: path.to_owned(), of, why, at, is_stale: false }
    }

    /// Returns whether it says why a worker is as it is now.
    pub(super) fn explains(&self, row: &Row) -> bool {
        let of = self.of.as_ref();
        let is_same = of.is_some_and(|(state, cause)| (state, cause) == (&row.state, &row.cause));
        self.path == row.path && is_same && !self.is_stale
    }

    /// Returns whether the worker of this path is in the chain.
    pub(super) fn is_about(&self, path: &str) -> bool {
        self.why.as_ref().is_ok_and(|why| why.steps.iter().any(|step| step.path == path))
    }
}
