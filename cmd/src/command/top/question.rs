//! What the live view asks of the agent, and what it gets for an answer.

use crankcase_status::picture::Line;
use crankcase_status::wire::{EngineReport, Why, WorkerChange};

/// What a sheet shows of a worker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Of {
    /// All that its report has.
    Report,
    /// The graph near it.
    Near,
    /// The graph of the engine that it is.
    Engine,
}

/// What the agent is asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Question {
    /// Whether there is an agent, and for its events.
    Connect,
    /// For the report of the workers that an event of this number or a later one has changed; of all if there is none.
    Report(Option<u64>),
    /// For the chain from the worker to the root cause.
    Why(String),
    /// For the lines of a sheet.
    Sheet(Of, String),
    /// For what a change would do to others.
    Preview(WorkerChange, String),
    /// To change a worker, for this reason.
    Control(WorkerChange, String, String),
}

/// What the agent has answered.
#[derive(Debug)]
pub(super) enum Answer {
    Report(Box<Reports>),
    Why(Why),
    /// The lines of a sheet.
    Lines(Vec<Line>),
    Preview(String),
    /// What was done, in words.
    Done(String),
}

/// The report of the workers that were asked for.
#[derive(Debug)]
pub(super) struct Reports {
    pub(super) report: EngineReport,
    /// The same with inputs, and only of the workers that wait for them.
    pub(super) waiting: Option<EngineReport>,
    /// Whether only the workers in trouble are in it, because all would be too many.
    pub(super) is_cut: bool,
}
