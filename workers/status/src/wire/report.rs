//! The reports of engines and workers, and the definition of trouble.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::origin::Origin;
use super::state::{EngineState, WorkerState};

/// The subject of a report.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Subject {
    /// An engine with its workers.
    Engine(EngineReport),
    /// One worker.
    Worker(Box<WorkerReport>),
}

/// The report of an engine, its workers and the engines among them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct EngineReport {
    /// The engine's path.
    pub path: String,
    /// Whether the engine runs.
    pub state: EngineState,
    /// Whether all essential workers run in good health.
    pub is_healthy: bool,
    /// When the report was taken, in RFC 3339.
    pub at: String,
    /// The error that stops or stopped the engine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// The workers that are stuck: told to stop, dropped, and still there.
    #[serde(default)]
    pub left_behind: Vec<String>,
    /// The workers by name.
    pub workers: BTreeMap<String, WorkerReport>,
    /// How many of its workers are left out, because only some were asked for.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub omitted: usize,
}

/// The report of one worker.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct WorkerReport {
    /// The worker's path.
    pub path: String,
    /// The state of the worker.
    pub state: WorkerState,
    /// The generation of its present or last worker; 0 before the first.
    pub generation: u32,
    /// How many workers of its name were started. Does not count those that an admission refused.
    pub starts: u32,
    /// How many times in a row it has failed.
    pub failures: u32,
    /// Whether the engine's health depends on it.
    pub is_essential: bool,
    /// Whether its last worker did not end in its grace, or start in its time, and was aborted.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub was_aborted: bool,
    /// For how long it has blocked its thread, in seconds, if it is a second or longer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub blocks_for: Option<f64>,
    /// Why it does not do all it should, in its own words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub degraded: Option<String>,
    /// The names of other workers of its engine that it says it waits for, or that hold it back.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub waits_for: Vec<String>,
    /// The origin of its park, if it is parked and the origin was given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parked_by: Option<Origin>,
    /// Its inputs, as they were declared.
    #[serde(default)]
    pub inputs: Vec<InputReport>,
    /// When its manifold was installed, in RFC 3339 with microseconds. A manifold that replaces another
    /// does not change it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub installed: Option<String>,
    /// Its first start that came up, or the very first one if none did; none if that is the last start.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first_start: Option<StartReport>,
    /// Its last start, if there was any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_start: Option<StartReport>,
    /// The failed attempts at its work since it was last in good health, if there were any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attempts: Option<AttemptsReport>,
    /// The number of the last event that is about the worker, such as a note, or that has changed
    /// its state or, while it waits, that of an input. None if nobody followed the events at that
    /// time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_event: Option<u64>,
    /// When its last worker was up, in RFC 3339.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started: Option<String>,
    /// When its last worker ended, in RFC 3339.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stopped: Option<String>,
    /// The end of its wait, if it waits for a time, in RFC 3339: the time of its start or, if it is
    /// degraded and says so, of its next try.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<String>,
    /// Its last error.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<WorkerError>,
    /// Its own report, if it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub report: Option<Detail>,
    /// Why its own report is not there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reporter: Option<String>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks for it")]
pub(super) fn is_false(value: &bool) -> bool {
    !value
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks for it")]
pub(super) fn is_zero(count: &usize) -> bool {
    *count == 0
}

/// One start of a worker. Its times are in RFC 3339 with microseconds, and each is at or after the one
/// before.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct StartReport {
    /// The generation of the worker.
    pub generation: u32,
    /// When nothing held back the start any more.
    pub ready: String,
    /// The last thing that it waited for before that.
    pub waited_for: WaitedFor,
    /// When the engine began the start. Until then it was busy with other workers.
    pub begun: String,
    /// When the worker was up, if it was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub up: Option<String>,
    /// How many attempts of the worker had failed when it came up.
    #[serde(default)]
    pub failed_attempts: u32,
}

/// The last thing that a worker waits for before it can start.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum WaitedFor {
    /// The input with this name.
    Input(String),
    /// Its bounce delay.
    Delay,
    /// Its backoff after a failure.
    Backoff,
    /// The end of its worker before.
    End,
    /// Nothing but a call: its install, a bounce or an unpark.
    Call,
    /// A later version knows what it is.
    #[serde(other)]
    Other,
}

/// The failed attempts of a worker at its work.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct AttemptsReport {
    /// How many there were.
    pub count: u32,
    /// When the first of them was reported, in RFC 3339.
    pub first: String,
    /// When the last of them was reported, in RFC 3339.
    pub last: String,
}

/// One input of a worker.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct InputReport {
    /// The name that it refers to.
    pub name: String,
    /// `required`, `optional`, `live` or `live required`.
    pub need: String,
    /// The type that is asked for.
    pub output: String,
    /// The state of the worker under that name.
    pub state: WorkerState,
    /// Whether it was there when the last worker was started.
    pub was_present: bool,
}

/// An error that ended a worker.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct WorkerError {
    /// The error and its causes.
    pub text: String,
    /// Whether the worker panicked.
    pub is_panic: bool,
    /// The backtrace of a panic, a function on each line, if the agent runs with `RUST_BACKTRACE=1`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub backtrace: Option<String>,
    /// When it ended, in RFC 3339.
    pub at: String,
}

/// A worker's own report.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Detail {
    /// The report of the worker as an engine.
    Engine(Box<EngineReport>),
    /// Any other report.
    Value(serde_json::Value),
}

impl StartReport {
    /// Returns how long the engine was busy with other workers while this one could start; none if a time
    /// cannot be read.
    pub fn queued(&self) -> Option<Duration> {
        between(&self.ready, &self.begun)
    }

    /// Returns how long the start took; none if the worker was not up.
    pub fn took(&self) -> Option<Duration> {
        between(&self.begun, self.up.as_ref()?)
    }
}

fn between(first: &str, then: &str) -> Option<Duration> {
    let read = |text| humantime::parse_rfc3339(text).ok();
    read(then)?.duration_since(read(first)?).ok()
}

/// The definition of trouble, for all readers of a report.
impl Subject {
    /// Returns whether something in it is degraded, failed or parked.
    pub fn has_trouble(&self) -> bool {
        match self {
            Self::Engine(engine) => engine.has_trouble(),
            Self::Worker(worker) => worker.has_trouble(),
        }
    }
}

impl EngineReport {
    /// Returns whether the engine has failed, or something in it is degraded, failed or parked.
    pub fn has_trouble(&self) -> bool {
        self.error.is_some() || self.workers.values().any(WorkerReport::has_trouble)
    }

    /// Returns the number of the newest event about one of its workers, at any depth; none if there is none.
    pub fn last_event(&self) -> Option<u64> {
        let last = |worker: &WorkerReport| match &worker.report {
            Some(Detail::Engine(nested)) => worker.last_event.max(nested.last_event()),
            _ => worker.last_event,
        };
        self.workers.values().filter_map(last).max()
    }
}

impl WorkerReport {
    /// Returns whether it, or something in it, is degraded, failed or parked. A worker that waits for
    /// its inputs is not in trouble itself.
    pub fn has_trouble(&self) -> bool {
        let nested = match &self.report {
            Some(Detail::Engine(engine)) => engine.has_trouble(),
            _ => false,
        };
        self.state.is_trouble() || nested || self.degraded.is_some()
    }
}
