//! What a runner reports of its workers.

use std::collections::BTreeMap;

use crankcase_engine::{Detail, WorkerState};
use serde::Serialize;

use super::restart::Restart;

/// What a runner's workers are doing.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct RunnerReport {
    /// Whether the runner stops or has ended.
    pub is_stopping: bool,
    /// The workers by name.
    pub workers: BTreeMap<String, RunnerChild>,
}

/// What one worker of a runner is doing.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct RunnerChild {
    /// What it is doing, in the engine's words.
    pub state: WorkerState,
    /// When it is started again.
    pub restart: Restart,
    /// How many workers its spec has had under the name.
    pub generation: u32,
    /// How many times in a row it has failed.
    pub failures: u32,
    /// How long it has been up, in seconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub running_for: Option<f64>,
    /// How long it still waits for its next start, in seconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_try_in: Option<f64>,
    /// Its last error.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<RunnerChildError>,
    /// Its own report, if it has one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub report: Option<Detail>,
    /// Why its own report is not there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reporter: Option<String>,
}

/// An error that ended a worker of a runner.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct RunnerChildError {
    /// The error and its causes.
    pub text: String,
    /// Whether the worker panicked.
    pub is_panic: bool,
}

impl From<RunnerReport> for Detail {
    fn from(report: RunnerReport) -> Self {
        Self::Value(serde_json::to_value(report).unwrap_or_default())
    }
}
