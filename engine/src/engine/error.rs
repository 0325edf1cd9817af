use std::fmt;
use std::sync::Arc;

use crate::exit::BoxError;

/// Why an engine has ended otherwise than because it was killed.
#[derive(Debug, Clone, thiserror::Error)]
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

/// An error that several can hold.
#[derive(Clone)]
pub struct SharedError(Arc<BoxError>);

impl SharedError {
    pub(super) fn new(error: Arc<BoxError>) -> Self {
        Self(error)
    }

    /// Returns the error.
    pub fn get(&self) -> &(dyn std::error::Error + Send + Sync + 'static) {
        &**self.0
    }
}

impl fmt::Debug for SharedError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}

impl fmt::Display for SharedError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

impl std::error::Error for SharedError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.0.source()
    }
}
