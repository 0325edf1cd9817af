//! Reports: what an engine and its workers are doing, as plain data.

use std::collections::BTreeMap;
use std::fmt;
use std::pin::Pin;
use std::sync::Arc;

use serde::{Serialize, Serializer};

use super::event::Origin;
use crate::vocabulary::clock::Timestamp;
use crate::vocabulary::value::{serialize_short, short_name};

/// What an engine, its workers and its nested engines are doing.
///
/// A report shows one moment, except for the workers' own reports: reporters are asked afterwards.
/// In an engine of more than 256 names it is taken in several turns, and shows more than one
/// moment.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Report {
    /// The engine's path, `/` for one without a name.
    pub path: String,
    /// Whether the engine runs.
    pub state: EngineState,
    /// Whether no error stops the engine, and all essential workers run in good health or are done.
    /// An essential nested engine must be healthy itself. After the engine's end: whether it ended
    /// without an error and left no worker behind.
    pub is_healthy: bool,
    /// When the report was taken.
    pub at: Timestamp,
    /// The error that stops or stopped the engine.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// The workers that are stuck: told to stop, dropped, and still there. After the engine's end
    /// this includes workers in nested engines.
    pub left_behind: Vec<String>,
    /// The workers by name.
    pub workers: BTreeMap<String, WorkerReport>,
}

/// Whether an engine runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
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
    /// The generation of the worker, or of the last one; 0 before the first start.
    pub generation: u32,
    /// How many workers of its name were started. Does not count those that an admission refused.
    pub starts: u32,
    /// How many times in a row it has failed.
    pub failures: u32,
    /// Whether the engine's health depends on it.
    pub is_essential: bool,
    /// Whether its last worker was aborted: it did not end in its grace, or did not start in time.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub was_aborted: bool,
    /// For how long it has blocked its thread, in seconds: its task has been polled for so long
    /// without a break. Exact to a quarter of a second. `None` below a second, on a paused clock, and
    /// for a worker with a thread of its own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub blocks_for: Option<f64>,
    /// Why it is degraded, in its own words, cut after 64 KiB.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub degraded: Option<String>,
    /// The names of other workers of its engine that it says it waits for, or that hold it back:
    /// see [`Health::waits_for`](crate::Health::waits_for) and
    /// [`Health::held_back`](crate::Health::held_back).
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub waits_for: Vec<String>,
    /// The origin of the call that parked it. `None` if it is not parked, or if that call had none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parked_by: Option<Origin>,
    /// Its inputs, in the order in which they were declared.
    pub inputs: Vec<InputReport>,
    /// When its manifold was installed. A manifold that replaces another does not change it.
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "maybe_micros")]
    pub installed: Option<Timestamp>,
    /// Its last start. `None` before the first one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_start: Option<StartReport>,
    /// Its first start that came up, or the very first one if none did. `None` if that is `last_start`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub first_start: Option<StartReport>,
    /// The failed attempts at its work since it was last in good health: see
    /// [`Health::attempt_failed`](crate::Health::attempt_failed). `None` if there were none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub attempts: Option<AttemptsReport>,
    /// The number of the last event that has changed the worker's state, or, while it waits, that of an
    /// input; or that is about the worker, such as a note. See
    /// [`Event::sequence`](crate::Event::sequence). `None` if nobody followed the events then.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_event: Option<u64>,
    /// When its last worker came up.
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
    /// Why its own report is missing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reporter: Option<String>,
}

impl Report {
    /// Returns the report of an engine that was lost before its end.
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
    /// Whether it runs in good health, or is done.
    pub fn is_well(&self) -> bool {
        matches!(self.state, WorkerState::Running | WorkerState::Done) && self.degraded.is_none()
    }
}

/// One start of a worker: first it waits, then the engine begins its start, then it is up.
///
/// The times follow the engine's clock, so each is at or after the one before, whatever happens to the
/// system's clock. They are serialised with microseconds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct StartReport {
    /// The generation of the worker.
    pub generation: u32,
    /// When nothing held back the start any more.
    #[serde(serialize_with = "micros")]
    pub ready: Timestamp,
    /// What it waited for last before that.
    pub waited_for: WaitedFor,
    /// When the engine began the start. Until then it was busy with other workers.
    #[serde(serialize_with = "micros")]
    pub begun: Timestamp,
    /// When the worker was up. `None` if it was not.
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "maybe_micros")]
    pub up: Option<Timestamp>,
    /// How many attempts of the worker had failed when it came up; see
    /// [`Health::attempt_failed`](crate::Health::attempt_failed).
    pub failed_attempts: u32,
}

/// What a worker waits for last before it can start.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum WaitedFor {
    /// The input with this name: it came up, or it is optional and no longer coming.
    Input(String),
    /// Its bounce delay.
    Delay,
    /// Its backoff after a failure.
    Backoff,
    /// The end of its worker before.
    End,
    /// Nothing but a call: its install, a bounce or an unpark.
    Call,
}

/// The failed attempts of a worker at its work.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct AttemptsReport {
    /// How many there were.
    pub count: u32,
    /// When the first of them was reported.
    pub first: Timestamp,
    /// When the last of them was reported.
    pub last: Timestamp,
}

fn micros<S: Serializer>(at: &Timestamp, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(&at.micros())
}

fn maybe_micros<S: Serializer>(at: &Option<Timestamp>, serializer: S) -> Result<S::Ok, S::Error> {
    match at {
        Some(at) => micros(at, serializer),
        None => serializer.serialize_none(),
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
    /// It is up or being started, and says that another worker holds it back.
    HeldBack,
    /// It is up or being started, and says that it leaves its work alone because a person has asked for
    /// that.
    Paused,
}

impl WorkerState {
    /// Returns the state's word.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Starting => "starting",
            Self::HeldBack => "held back",
            Self::Paused => "paused",
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

    /// Whether a worker is in this state because of its last error. `error` is the time of that
    /// error, and `up` is when a worker was last up. States that come from a bounce, a missing
    /// input or a park are not due to an error, and neither is any state if a worker came up after
    /// the error.
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
    /// The type that is asked for. Written without the paths of modules.
    #[serde(serialize_with = "serialize_short")]
    pub output: &'static str,
    /// What the worker under that name is doing, whether or not another one holds it back.
    pub state: WorkerState,
    /// Whether it was present when the last worker was started.
    pub was_present: bool,
}

impl InputReport {
    /// Returns the type that is asked for without the paths of modules, as it is serialised.
    pub fn output_name(&self) -> String {
        short_name(self.output)
    }
}

/// An error that ended a worker.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct ErrorReport {
    /// The error and its causes, cut after 64 KiB.
    pub text: String,
    /// Whether the worker panicked.
    pub is_panic: bool,
    /// The backtrace of a panic; see [`Panicked::backtrace`](crate::Panicked::backtrace).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub backtrace: Option<String>,
    /// When the worker ended.
    pub at: Timestamp,
}

impl fmt::Display for Report {
    /// Writes a line for each worker. The workers of a nested engine are indented below its line.
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
    if let Some(seconds) = worker.blocks_for {
        write!(f, ", blocks its thread for {seconds:.1} s")?;
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

/// Returns a worker's own report when called.
pub(crate) type ReportFn =
    Arc<dyn Fn() -> Pin<Box<dyn Future<Output = Detail> + Send>> + Send + Sync>;

/// What a worker reports of itself.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(untagged)]
#[non_exhaustive]
pub enum Detail {
    /// The report of an engine that runs in this worker.
    Engine(Box<Report>),
    /// Any other report.
    Value(serde_json::Value),
}

/// Returns a reporter that calls this function.
pub(crate) fn reporter<P, F, D>(report: P) -> ReportFn
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
