use std::collections::BTreeMap;
use std::fmt;
use std::pin::Pin;
use std::sync::Arc;

use serde::Serialize;

use crate::seen::event::Origin;
use crate::vocabulary::clock::Timestamp;

/// What an engine, its workers and the engines among them are doing.
///
/// It is taken at one moment, except for the workers' own reports, which are asked for afterwards.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Report {
    /// The engine's path, `/` for one without a name.
    pub path: String,
    /// Whether the engine runs.
    pub state: EngineState,
    /// Whether all essential workers run in good health, those that are engines with all that is
    /// essential in them.
    pub is_healthy: bool,
    /// When the report was taken.
    pub at: Timestamp,
    /// The error that stops or stopped the engine.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// The workers that are stuck: told to stop, dropped, and still there. After the engine's end
    /// those of nested engines too.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub left_behind: Vec<String>,
    /// The workers by name.
    pub workers: BTreeMap<String, WorkerReport>,
}

/// Whether an engine runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum EngineState {
    /// It runs.
    Running,
    /// It was killed, or has had a fatal error, and stops its workers.
    Stopping,
    /// It has ended.
    Stopped,
}

/// What one worker is doing.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct WorkerReport {
    /// The worker's path.
    pub path: String,
    /// What it is doing.
    pub state: WorkerState,
    /// Which worker of its name it is, or was last; 0 before the first.
    pub generation: u32,
    /// How many workers of its name were started.
    pub starts: u32,
    /// How many times in a row it has failed.
    pub failures: u32,
    /// Whether the engine's health depends on it.
    pub is_essential: bool,
    /// Whether its last worker did not end in its grace, or start in its time, and was aborted.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub was_aborted: bool,
    /// Why it does not do all it should, in its own words, cut after 64 KiB.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub degraded: Option<String>,
    /// Who has parked it and why, if it is parked and that was said.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parked_by: Option<Origin>,
    /// Its inputs, as they were declared.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub inputs: Vec<InputReport>,
    /// When its last worker was up.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub started: Option<Timestamp>,
    /// When its last worker ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stopped: Option<Timestamp>,
    /// Until when it waits, if it waits for a time: before it is started, or, if it is degraded and
    /// says so, before it tries again.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub until: Option<Timestamp>,
    /// Its last error.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<ErrorReport>,
    /// Its own report, if it has one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub report: Option<Detail>,
    /// Why its own report is not there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reporter: Option<String>,
}

impl Report {
    /// Returns what is left to say of an engine that was lost before it came to its end.
    pub(crate) fn of_lost(path: String, at: Timestamp, error: Option<String>) -> Self {
        Self {
            path,
            state: EngineState::Stopped,
            is_healthy: false,
            at,
            error,
            left_behind: Vec::new(),
            workers: BTreeMap::new(),
        }
    }
}

impl WorkerReport {
    /// Returns whether it runs, or is done, as it should.
    pub fn is_well(&self) -> bool {
        matches!(self.state, WorkerState::Running | WorkerState::Done) && self.degraded.is_none()
    }
}

/// What a worker is doing, or waiting for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum WorkerState {
    /// It is up.
    Running,
    /// It is being started.
    Starting,
    /// It is up and will stop when its dependents have.
    Closing,
    /// It was told to stop.
    Stopping,
    /// It did not stop in its grace, and its future is being dropped.
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
    /// Nothing is installed there.
    Absent,
}

impl WorkerState {
    /// Returns the state's word.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Starting => "starting",
            Self::Closing => "closing",
            Self::Stopping => "stopping",
            Self::Aborting => "aborting",
            Self::Stuck => "stuck",
            Self::Lingering => "lingering",
            Self::Waiting => "waiting",
            Self::Delayed => "delayed",
            Self::BackingOff => "backing off",
            Self::Missing => "missing",
            Self::Done => "done",
            Self::Spent => "spent",
            Self::Parked => "parked",
            Self::Absent => "absent",
        }
    }

    /// Whether a worker that has failed so often in a row is in this state because of its last error,
    /// by when that was and when a worker was last up. A bounce, an input that is not there and a park
    /// have nothing to do with it, nor has an error that was before.
    pub(crate) fn is_due_to_error<T: PartialOrd>(
        self,
        failures: u32,
        error: T,
        up: Option<T>,
    ) -> bool {
        let is_over = up.is_some_and(|up| error < up);
        let can_be = match self {
            Self::BackingOff
            | Self::Spent
            | Self::Missing
            | Self::Aborting
            | Self::Lingering
            | Self::Stuck => true,
            Self::Starting => failures > 0,
            _ => false,
        };
        can_be && !is_over
    }
}

impl fmt::Display for WorkerState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// One input of a worker.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct InputReport {
    /// The name that it refers to.
    pub name: String,
    /// `required`, `optional`, `live` or `live required`.
    pub need: &'static str,
    /// The type that is asked for.
    pub output: &'static str,
    /// What the worker under that name is doing.
    pub state: WorkerState,
    /// Whether it was there when the last worker was started.
    pub was_present: bool,
}

/// An error that ended a worker.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct ErrorReport {
    /// The error and its causes, cut after 64 KiB.
    pub text: String,
    /// Whether the worker panicked.
    pub is_panic: bool,
    /// When it ended.
    pub at: Timestamp,
}

impl fmt::Display for Report {
    /// Writes a line for each worker, nested engines indented below their own.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_engine(f, self, 0)
    }
}

fn write_engine(f: &mut fmt::Formatter<'_>, report: &Report, depth: usize) -> fmt::Result {
    let indent = depth * 2;
    if depth == 0 {
        let state = match report.state {
            EngineState::Running => "running",
            EngineState::Stopping => "stopping",
            EngineState::Stopped => "stopped",
        };
        writeln!(f, "{} {state}, {} workers", report.path, report.workers.len())?;
    }
    if let Some(error) = &report.error {
        writeln!(f, "{:indent$}  error: {error}", "")?;
    }
    let width = report.workers.keys().map(String::len).max().unwrap_or(0);
    for (name, worker) in &report.workers {
        write!(f, "{:indent$}  {name:width$}  {}", "", worker.state)?;
        write_notes(f, worker)?;
        writeln!(f)?;
        if let Some(Detail::Engine(nested)) = &worker.report {
            write_engine(f, nested, depth + 1)?;
        }
    }
    Ok(())
}

fn write_notes(f: &mut fmt::Formatter<'_>, worker: &WorkerReport) -> fmt::Result {
    if let Some(origin) = &worker.parked_by {
        write!(f, " ({origin})")?;
    }
    if worker.starts > 1 {
        write!(f, ", started {} times", worker.starts)?;
    }
    if worker.was_aborted && !matches!(worker.state, WorkerState::Aborting | WorkerState::Stuck) {
        f.write_str(", aborted")?;
    }
    if let Some(reason) = &worker.degraded {
        write!(f, ", degraded: {reason}")?;
    }
    let missing = worker.inputs.iter().filter(|input| {
        worker.state == WorkerState::Waiting && input.state != WorkerState::Running
    });
    for input in missing {
        write!(f, ", {} is {}", input.name, input.state)?;
    }
    if let Some(until) = worker.until {
        let word = if worker.degraded.is_some() { "next try" } else { "until" };
        write!(f, ", {word} {until}")?;
    }
    match &worker.error {
        Some(error) if worker.state.is_due_to_error(worker.failures, error.at, worker.started) => {
            write!(f, ": {}", error.text)?;
        }
        _ => {}
    }
    worker.reporter.as_ref().map_or(Ok(()), |why| write!(f, " (no report: {why})"))
}

/// Takes a worker's own report.
pub(crate) type Reporter =
    Arc<dyn Fn() -> Pin<Box<dyn Future<Output = Detail> + Send>> + Send + Sync>;

/// What a worker reports of itself.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(untagged)]
pub enum Detail {
    /// The report of an engine that the worker is.
    Engine(Box<Report>),
    /// Any other report.
    Value(serde_json::Value),
}

/// Makes a reporter of what a worker gives as one.
pub(crate) fn reporter<P, F, D>(report: P) -> Reporter
where
    P: Fn() -> F + Send + Sync + 'static,
    F: Future<Output = D> + Send + 'static,
    D: Into<Detail>,
{
    Arc::new(move || {
        let answer = report();
        Box::pin(async move { answer.await.into() })
    })
}

impl From<serde_json::Value> for Detail {
    fn from(value: serde_json::Value) -> Self {
        Self::Value(value)
    }
}

impl From<Report> for Detail {
    fn from(report: Report) -> Self {
        Self::Engine(Box::new(report))
    }
}
