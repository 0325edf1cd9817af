//! Why an engine has ended.

use std::fmt;

use crate::vocabulary::error::{SharedError, WithCauses};

/// The number of workers that an error's text names at most.
const MOST_NAMED: usize = 10;

/// Why an engine ended, if it was not a clean kill, or why a wait for its end was refused.
#[derive(Clone, thiserror::Error)]
#[non_exhaustive]
pub enum EngineError {
    /// A worker had a fatal error. If several workers had one, this is the gravest.
    #[error("worker {path} had a fatal error")]
    Fatal {
        /// The worker's path.
        path: String,
        /// Its error.
        source: SharedError,
    },
    /// Workers did not end in time: they are stuck, or the kill deadline passed. They may run until
    /// the process ends. The log names each of them.
    #[error(
        "workers of engine {path} did not end in time and were left behind: {}",
        first_of(workers)
    )]
    LeftBehind {
        /// The engine's path.
        path: String,
        /// The workers' paths, sorted. Includes workers of nested engines.
        workers: Vec<String>,
    },
    /// A worker waited for its engine's end through its own handle. It would wait for its own end.
    #[error("worker {asker} would wait for its own end")]
    OwnEnd {
        /// The worker's path.
        asker: String,
    },
    /// The engine itself panicked, and its workers were dropped. This is a bug in the engine.
    #[error("the loop of engine {path} panicked")]
    Panicked {
        /// The engine's path.
        path: String,
    },
    /// The runtime of the engine or of its workers was shut down.
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

/// Returns the names of the first workers, and how many more there are.
fn first_of(workers: &[String]) -> String {
    let (named, others) = workers.split_at(workers.len().min(MOST_NAMED));
    let more = match others.len() {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    named.join(", ") + &more
}
