//! Why an agent did not answer as it was asked to.

use std::fmt;
use std::io;
use std::path::PathBuf;
use std::time::Duration;

use crankcase_engine::{BoxError, WithCauses};
use thiserror::Error;

use crate::wire::{FailureCode, VERSION};

/// Why an agent did not answer as it was asked to.
#[derive(Error)]
#[non_exhaustive]
pub enum ClientError {
    /// No agent listens: start one, or name its state folder.
    #[error("no agent is reachable at {path:?}")]
    NoAgent {
        /// The state folder or the socket.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// No engine or worker has the path.
    #[error("{message}")]
    UnknownPath {
        /// The agent's words.
        message: String,
    },
    /// The agent refused the request.
    #[error("the agent refused: {message}")]
    Refused {
        /// What kind of refusal it is.
        code: FailureCode,
        /// The agent's words.
        message: String,
    },
    /// The agent did not answer in time: it hangs, or is stopped.
    #[error("the agent did not answer within {after:?}")]
    TooSlow {
        /// How long it was waited for.
        after: Duration,
    },
    /// The connection broke before the answer was whole, as it does when the agent ends.
    #[error("the agent broke off the connection")]
    Broken(#[source] BoxError),
    /// The answer is longer than what is taken, 16 MiB: ask for a part of it.
    #[error("the answer of the agent is longer than {limit} bytes; ask for a part of it")]
    TooLong {
        /// The bound, in bytes.
        limit: usize,
    },
    /// The answer cannot be understood.
    #[error("cannot understand the answer of the agent")]
    Answer(#[source] serde_json::Error),
    /// The agent speaks another version: use the program that belongs to it.
    #[error("the agent speaks version {version}, expected version {VERSION}")]
    Version {
        /// The agent's version.
        version: u32,
    },
}

impl fmt::Debug for ClientError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&WithCauses(self), f)
    }
}

impl From<hyper::Error> for ClientError {
    fn from(error: hyper::Error) -> Self {
        Self::Broken(error.into())
    }
}
