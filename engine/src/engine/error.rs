use std::fmt;

use crate::vocabulary::error::{SharedError, WithCauses};

/// How many workers the text of an error names.
const MOST_NAMED: usize = 10;

/// Why an engine has ended otherwise than because it was killed.
#[derive(Clone, thiserror::Error)]
#[non_exhaustive]
pub enum EngineError {
    /// A worker had a fatal error; of several, the gravest.
    #[error("worker {path} had a fatal error")]
    Fatal {
        /// The worker's path.
        path: String,
        /// Its error.
        source: SharedError,
    },
    /// Workers did not end in time: they are stuck, or the kill deadline was over. They may run on
    /// until the process ends. The log has named each.
    #[error(
        "workers of engine {path} did not end in time and were left behind: {}",
        first_of(workers)
    )]
    LeftBehind {
        /// The engine's path.
        path: String,
        /// Their paths, sorted; those of nested engines too.
        workers: Vec<String>,
    },
    /// A worker asked through its own handle, and would wait for its own end.
    #[error("worker {asker} would wait for its own end")]
    OwnEnd {
        /// The worker's path.
        asker: String,
    },
    /// The engine itself panicked, which is a fault in it, and its workers were dropped.
    #[error("the loop of engine {path} panicked")]
    Panicked {
        /// The engine's path.
        path: String,
    },
    /// The runtime that the engine or its workers ran on was shut down.
    #[error("the runtime of engine {path} was shut down")]
    RuntimeGone {
        /// The engine's path.
        path: String,
    },
}

impl fmt::Debug for EngineError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&WithCauses(self), f)
    }
}

/// Names the first of some workers, and how many more there are.
fn first_of(workers: &[String]) -> String {
    let (named, others) = workers.split_at(workers.len().min(MOST_NAMED));
    let more = match others.len() {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    named.join(", ") + &more
}
