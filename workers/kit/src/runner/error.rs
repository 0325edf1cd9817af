//! Why a runner does not do what its caller asks for.

use std::fmt;

use crankcase_engine::{ConfigError, NameError, WithCauses};
use thiserror::Error;

/// Why a runner does not do what it was asked for.
#[derive(Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum RunnerError {
    /// The name is none; names are the same as an engine's.
    #[error(transparent)]
    BadName(#[from] NameError),
    /// The spec has a setting that cannot be used.
    #[error("cannot start worker {name:?}")]
    BadSpec {
        /// The name.
        name: String,
        /// The field at fault.
        #[source]
        source: ConfigError,
    },
    /// The name is taken by a worker that is not about to go, or by one that waits for its turn: stop
    /// it first, or replace it.
    #[error("cannot start worker {name:?}: there is one already; stop it first, or replace it")]
    Exists {
        /// The name.
        name: String,
    },
    /// There is no worker of that name, or no longer.
    #[error("cannot {action} worker {name:?}: there is none")]
    Unknown {
        /// What was asked for.
        action: &'static str,
        /// The name.
        name: String,
    },
    /// The worker was stopped or replaced before its turn came; it was never started.
    #[error("cannot start worker {name:?}: it was stopped or replaced before its turn came")]
    Withdrawn {
        /// The name.
        name: String,
    },
    /// The worker that was waited for left before it was up.
    #[error("worker {name:?} left before it was up")]
    Left {
        /// The name.
        name: String,
    },
    /// A worker would wait for itself: let it end by itself instead.
    #[error("cannot {action} worker {name:?}: it would wait for itself")]
    OwnEnd {
        /// What was asked for.
        action: &'static str,
        /// The name.
        name: String,
    },
    /// The runner stops, or has ended.
    #[error("cannot {action} worker {name:?}: the runner stops")]
    Stopping {
        /// What was asked for.
        action: &'static str,
        /// The name.
        name: String,
    },
}

impl fmt::Debug for RunnerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&WithCauses(self), f)
    }
}

impl RunnerError {
    pub(super) fn own_end(action: &'static str, name: &str) -> Self {
        Self::OwnEnd { action, name: name.to_owned() }
    }
}
