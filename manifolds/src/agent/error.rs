//! How an agent ends, and the exit code for each end.

use std::fmt;
use std::io;
use std::process::ExitCode;

use crankcase_engine::{ChangeError, ConfigError, EngineError, WithCauses};
use crankcase_status::StateError;
use crankcase_workers::SignalError;
use thiserror::Error;

use crate::logging::LoggingError;

/// How an agent has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use = "an interrupted agent has an exit code of its own"]
pub enum Ended {
    /// All workers have stopped in order.
    Stopped,
    /// A second signal came before they had.
    Interrupted,
}

impl Ended {
    /// Returns the exit code of the process: 0, or 130 if it was interrupted.
    pub fn exit_code(self) -> ExitCode {
        match self {
            Self::Stopped => ExitCode::SUCCESS,
            Self::Interrupted => ExitCode::from(130),
        }
    }
}

/// Why an agent did not start, or did not end well.
#[derive(Error)]
#[non_exhaustive]
pub enum AgentError {
    /// The log could not be begun.
    #[error(transparent)]
    Logging(#[from] LoggingError),
    /// The state folder is held by another agent, or cannot be used.
    #[error(transparent)]
    State(#[from] StateError),
    /// The threads or their drivers cannot be made.
    #[error("cannot make the threads of the agent")]
    Threads {
        /// What the system said.
        source: io::Error,
    },
    /// The signals cannot be listened for.
    #[error("cannot listen for signals")]
    Signals(#[from] SignalError),
    /// A setting of the engine cannot be used.
    #[error("cannot build the engine")]
    Config(#[from] ConfigError),
    /// A bound of the control socket cannot be used.
    #[error("cannot serve the control socket")]
    Control(#[from] crankcase_status::ConfigError),
    /// The manifolds do not fit each other; nothing was started.
    #[error("cannot install the manifolds of the agent")]
    Install(#[from] ChangeError),
    /// Workers had to be aborted at the stop, because they did not end in their grace.
    #[error("{} did not stop in time and had to be aborted", shown(workers))]
    Aborted {
        /// The workers' paths, in the order of their aborts.
        workers: Vec<String>,
    },
    /// A worker had a fatal error, of several the gravest, or workers were left behind.
    #[error("the agent has failed")]
    Engine(#[from] EngineError),
}

/// Returns the path of the first worker, and how many more there are.
fn shown(workers: &[String]) -> String {
    match workers {
        [] => "no worker".to_owned(),
        [one] => format!("worker {one}"),
        [first, others @ ..] => format!("worker {first} and {} more", others.len()),
    }
}

impl fmt::Debug for AgentError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&WithCauses(self), f)
    }
}

impl AgentError {
    /// Returns the worst fatal error of a worker, if that is what ended the agent.
    pub(super) fn fatal(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Engine(EngineError::Fatal { source, .. }) => Some(source.get()),
            _ => None,
        }
    }

    /// Returns the path of the worker with the worst fatal error.
    pub(super) fn fatal_worker(&self) -> Option<&str> {
        match self {
            Self::Engine(EngineError::Fatal { path, .. }) => Some(path),
            _ => None,
        }
    }

    /// Returns the exit code of the process: 65 for manifolds that do not fit and for settings that
    /// cannot be used, 75 for a state folder that is held, else 1.
    pub fn exit_code(&self) -> ExitCode {
        match self {
            Self::Install(_)
            | Self::Config(_)
            | Self::Control(_)
            | Self::Logging(LoggingError::Filter(_)) => ExitCode::from(65),
            Self::State(StateError::Held { .. }) => ExitCode::from(75),
            _ => ExitCode::FAILURE,
        }
    }
}
