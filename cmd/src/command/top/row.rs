//! One worker in the table of the live view.

use std::time::SystemTime;

use crankcase_resources::front::resource_name;
use crankcase_status::picture::Look;
use crankcase_status::wire::{Detail, EngineReport, WorkerReport, WorkerState};

use crate::paths::resource_path;
use crate::print::first_line;

/// How near a worker is to a root cause; the nearest come first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Rank {
    /// It is in trouble itself, or has failed and tries again.
    Trouble,
    /// It was parked or paused by hand.
    Parked,
    /// It is an engine that runs, and is degraded by its workers.
    Around,
    /// Another worker holds it back.
    HeldBack,
    /// It waits for another worker.
    Waiting,
    /// It starts or stops.
    OnItsWay,
    /// It is well, or not there.
    Rest,
}

/// One worker of the table.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Row {
    /// The path by which the agent knows it.
    pub(super) path: String,
    /// The path as people write it, without the name of the agent's engine.
    pub(super) shown: String,
    pub(super) rank: Rank,
    pub(super) look: Look,
    /// What it does, in a word.
    pub(super) state: String,
    pub(super) generation: u32,
    /// How many times in a row it, or its work, has failed; 0 while it is well.
    pub(super) failures: u32,
    /// Since when it is as it is, as far as the report tells.
    pub(super) since: Option<SystemTime>,
    /// Why it is as it is, in a few words.
    pub(super) cause: String,
    pub(super) is_engine: bool,
}

impl Row {
    /// Returns the row of a worker.
    pub(super) fn of(worker: &WorkerReport) -> Self {
        let nested = nested(worker);
        let look = Look::of(&worker.state, worker.degraded.is_some());
        let attempts = worker.attempts.as_ref().map_or(0, |attempts| attempts.count);
        Self {
            path: worker.path.clone(),
            shown: shown(&worker.path),
            rank: rank(worker, look),
            look,
            state: state(worker),
            generation: worker.generation,
            // They are forgotten without an event while it is well.
            failures: if look == Look::Well { 0 } else { worker.failures.max(attempts) },
            since: since(worker),
            cause: cause(worker),
            is_engine: nested.is_some(),
        }
    }

    /// Returns how many engines it is in, apart from the agent's own.
    pub(super) fn depth(&self) -> usize {
        self.path.matches('/').count().saturating_sub(2)
    }

    /// Returns its name as people write it.
    pub(super) fn name(&self) -> String {
        resource_name(self.path.rsplit('/').next().unwrap_or(&self.path))
    }
}

/// Returns the engine that a worker is, if it is one and its report was given.
pub(super) fn nested(worker: &WorkerReport) -> Option<&EngineReport> {
    match worker.report.as_ref()? {
        Detail::Engine(engine) => Some(engine),
        Detail::Value(_) => None,
    }
}

/// Returns a path as people write it, without the name of the agent's engine.
pub(super) fn shown(path: &str) -> String {
    let inner = path.strip_prefix('/').and_then(|path| path.split_once('/'));
    inner.map_or_else(|| path.to_owned(), |(_, inner)| resource_path(inner))
}

fn rank(worker: &WorkerReport, look: Look) -> Rank {
    match worker.state {
        WorkerState::Parked | WorkerState::Paused => Rank::Parked,
        // It is degraded by its workers.
        WorkerState::Running if nested(worker).is_some() && look == Look::Trouble => Rank::Around,
        _ if look == Look::Trouble => Rank::Trouble,
        WorkerState::HeldBack => Rank::HeldBack,
        WorkerState::Waiting => Rank::Waiting,
        // It has failed and tries again.
        _ if worker.failures > 0 && look == Look::OnItsWay => Rank::Trouble,
        _ if look == Look::OnItsWay => Rank::OnItsWay,
        _ => Rank::Rest,
    }
}

fn state(worker: &WorkerReport) -> String {
    let is_up = matches!(worker.state, WorkerState::Running | WorkerState::Starting);
    if is_up && worker.degraded.is_some() {
        return "degraded".to_owned();
    }
    worker.state.to_string().replace('_', " ")
}

fn since(worker: &WorkerReport) -> Option<SystemTime> {
    let first_failed = worker.attempts.as_ref().map(|attempts| &attempts.first);
    let failed = worker.error.as_ref().map(|error| &error.at);
    let begun = worker.last_start.as_ref().map(|start| &start.begun);
    let (started, stopped) = (worker.started.as_ref(), worker.stopped.as_ref());
    let at = match worker.state {
        _ if worker.degraded.is_some() => first_failed.or(started).or(begun),
        WorkerState::Running => started,
        WorkerState::Starting | WorkerState::HeldBack | WorkerState::Paused => begun.or(started),
        WorkerState::BackingOff | WorkerState::Spent => failed.or(stopped),
        _ => stopped.or(failed),
    };
    at.or(worker.installed.as_ref()).and_then(|at| humantime::parse_rfc3339_weak(at).ok())
}

fn cause(worker: &WorkerReport) -> String {
    if let Some(origin) = &worker.parked_by {
        return first_line(&format!("{}: {}", origin.who, origin.why));
    }
    if let Some(reason) = &worker.degraded {
        return first_line(reason);
    }
    if worker.state == WorkerState::Waiting {
        let unmet = worker.inputs.iter().filter(|input| input.state != WorkerState::Running);
        let mut names = unmet.map(|input| resource_name(&input.name));
        return match (names.next(), names.count()) {
            (None, _) => String::new(),
            (Some(name), 0) => first_line(&format!("for {name}")),
            (Some(name), more) => first_line(&format!("for {name} and {more} more")),
        };
    }
    // Of those that are well or held back it is an error of the past.
    let is_past = matches!(worker.state, WorkerState::Running | WorkerState::HeldBack);
    let error = worker.error.as_ref().filter(|_| !is_past);
    error.map(|error| first_line(&error.text)).unwrap_or_default()
}
