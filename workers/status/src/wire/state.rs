//! The states that an engine and a worker can be in, in the words of the wire.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Whether an engine runs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum EngineState {
    /// It runs.
    Running,
    /// It was killed, or has had a fatal error, and stops its workers.
    Stopping,
    /// It has ended.
    Stopped,
    /// A later version knows this state; this is its word.
    #[serde(untagged)]
    Other(String),
}

/// The state of a worker: the work that it does, or the thing that it waits for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum WorkerState {
    /// It is up.
    Running,
    /// It is being started.
    Starting,
    /// It is up or being started, and says that another worker holds it back.
    HeldBack,
    /// It is up or being started, and says that it leaves its work alone because a person has asked for
    /// that.
    Paused,
    /// It is up, and will stop once its dependents have stopped.
    Closing,
    /// It was told to stop.
    Stopping,
    /// It did not stop in its grace, or did not start in time; its future is being dropped.
    Aborting,
    /// It outlived both graces, or never yields.
    Stuck,
    /// It has ended, and something of it is left, such as blocking work.
    Lingering,
    /// It waits for its inputs.
    Waiting,
    /// It waits out its bounce delay.
    Delayed,
    /// It waits after a failure.
    BackingOff,
    /// It says that something it needs is missing.
    Missing,
    /// It is done.
    Done,
    /// It failed more often than its intensity allows.
    Spent,
    /// It was parked by hand.
    Parked,
    /// Nothing is installed under its name.
    Absent,
    /// A later version knows this state; this is its word.
    #[serde(untagged)]
    Other(String),
}

impl WorkerState {
    /// Returns whether a worker in this state has failed or was parked.
    pub(crate) fn is_trouble(&self) -> bool {
        matches!(
            self,
            Self::Aborting
                | Self::Stuck
                | Self::BackingOff
                | Self::Missing
                | Self::Spent
                | Self::Parked
                | Self::Paused
        )
    }
}

/// Writes the word that goes over the wire, such as `running`.
impl fmt::Display for EngineState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.serialize(f)
    }
}

/// Writes the word that goes over the wire, such as `backing_off`.
impl fmt::Display for WorkerState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.serialize(f)
    }
}
