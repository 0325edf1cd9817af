//! The part of a report that is asked for.

use std::collections::BTreeMap;
use std::fmt::Display;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::report::{Detail, EngineReport, WorkerReport};
use super::state::WorkerState;

/// The length of a field of a worker's own report above which it is left out of the report of an engine, in bytes
/// of JSON.
const LONGEST_FIELD: usize = 512;

/// The part of a report that is asked for. The default is all of it.
///
/// In the report of an engine, the own reports of workers in nested engines have only short fields: a field longer than
/// 512 bytes as JSON is left out, and its name is in the list `omitted`. The report of the one worker has all.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Selection {
    /// How many levels of nested engines are reported: 0 for the workers of the engine itself. Default all.
    pub depth: Option<u64>,
    /// Only these workers. Default all.
    pub only: Option<Only>,
    /// Only the workers that an event with this number or a later one has changed. Default all.
    pub since: Option<u64>,
    /// Whether the inputs of the workers are left out. Default false.
    pub without_inputs: bool,
    /// Whether the workers' own reports are left out, except those of engines. Default false.
    pub without_details: bool,
}

/// The workers that are reported.
#[derive(Debug, Clone, PartialEq)]
pub enum Only {
    /// The workers that are degraded, failed or parked.
    Trouble,
    /// The workers in this state.
    State(WorkerState),
}

impl Only {
    /// Reads `trouble`, or a state as reports write it, such as `backing_off`.
    pub fn read(text: &str) -> Option<Self> {
        if text == "trouble" {
            return Some(Self::Trouble);
        }
        match WorkerState::deserialize(Value::from(text)) {
            Ok(WorkerState::Other(_)) | Err(_) => None,
            Ok(state) => Some(Self::State(state)),
        }
    }
}

impl Display for Only {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Trouble => f.write_str("trouble"),
            Self::State(state) => state.fmt(f),
        }
    }
}

impl Selection {
    /// Returns the parameters of a request for this part.
    pub(crate) fn parameters(&self) -> impl Iterator<Item = (&'static str, String)> {
        let depth = self.depth.map(|depth| ("depth", depth.to_string()));
        let only = self.only.as_ref().map(|only| ("only", only.to_string()));
        let since = self.since.map(|since| ("since", since.to_string()));
        let inputs = self.without_inputs.then(|| ("inputs", "false".to_owned()));
        let details = self.without_details.then(|| ("details", "false".to_owned()));
        depth.into_iter().chain(only).chain(since).chain(inputs).chain(details)
    }

    /// Removes from a report what is not asked for. A nested engine stays if anything in it stays.
    pub(crate) fn apply(&self, report: &mut EngineReport) {
        self.apply_at(report, 0);
    }

    /// Removes from a worker's report what is not asked for. The worker itself always stays. If it
    /// is an engine, a depth of 0 keeps its workers.
    pub(crate) fn apply_to_one(&self, worker: &mut WorkerReport) {
        if let Some(Detail::Engine(nested)) = &mut worker.report {
            self.apply_at(nested, 0);
            nested.workers.values_mut().for_each(shorten);
        }
        self.strip(worker);
    }

    fn apply_at(&self, report: &mut EngineReport, level: u64) {
        let before = report.workers.len();
        report.workers.retain(|_, worker| self.keeps(worker, level));
        report.omitted = before - report.workers.len();
    }

    fn keeps(&self, worker: &mut WorkerReport, level: u64) -> bool {
        let is_asked_for = self.only.as_ref().is_none_or(|only| match only {
            Only::Trouble => worker.has_trouble(),
            Only::State(state) => worker.state == *state,
        });
        let is_asked_for =
            is_asked_for && self.since.is_none_or(|since| worker.last_event >= Some(since));
        let mut has_nested = false;
        if let Some(Detail::Engine(nested)) = &mut worker.report {
            self.apply_at(nested, level + 1);
            has_nested = !nested.workers.is_empty();
            if self.depth.is_some_and(|depth| level >= depth) {
                worker.report = None;
            }
        }
        self.strip(worker);
        if level > 0 {
            shorten(worker);
        }
        is_asked_for || has_nested
    }

    fn strip(&self, worker: &mut WorkerReport) {
        if self.without_inputs {
            worker.inputs.clear();
        }
        if self.without_details && matches!(worker.report, Some(Detail::Value(_))) {
            worker.report = None;
        }
    }
}

/// Removes the long fields from a worker's own report, and lists their names as `omitted`: an
/// engine has many workers.
fn shorten(worker: &mut WorkerReport) {
    if let Some(Detail::Value(Value::Object(report))) = &mut worker.report {
        let mut omitted = Vec::new();
        report.retain(|name, value| {
            let is_short = value.to_string().len() <= LONGEST_FIELD;
            if !is_short {
                omitted.push(Value::from(name.as_str()));
            }
            is_short
        });
        if !omitted.is_empty() {
            report.insert("omitted".to_owned(), omitted.into());
        }
    }
}

/// How many workers of an engine are in which state.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Counts {
    /// The engine's path.
    pub path: String,
    /// Whether all essential workers run in good health.
    pub is_healthy: bool,
    /// How many workers there are.
    pub total: usize,
    /// How many of them are degraded, failed or parked, or have such a worker in them.
    pub trouble: usize,
    /// How many workers are in each state, by its word. Without the states that no worker is in.
    pub states: BTreeMap<String, usize>,
    /// The engines in it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub engines: Vec<Self>,
}

impl Counts {
    /// Counts the workers of a report.
    pub fn of(report: &EngineReport) -> Self {
        let mut counts = Self {
            path: report.path.clone(),
            is_healthy: report.is_healthy,
            total: report.workers.len(),
            trouble: 0,
            states: BTreeMap::new(),
            engines: Vec::new(),
        };
        for worker in report.workers.values() {
            counts.trouble += usize::from(worker.has_trouble());
            *counts.states.entry(worker.state.to_string()).or_default() += 1;
            if let Some(Detail::Engine(nested)) = &worker.report {
                counts.engines.push(Self::of(nested));
            }
        }
        counts
    }
}
