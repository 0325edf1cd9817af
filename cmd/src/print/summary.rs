//! How the resources of a site are, in the words of those who declare them.

use std::collections::BTreeMap;
use std::io::{self, Write};

use clap::ValueEnum;
use crankcase_resources::Tally;
use crankcase_resources::front::resource_name;
use crankcase_status::wire::{Detail, EngineReport, WorkerReport, WorkerState};
use crankcase_workers::one_line;
use serde::Deserialize;

use super::out::Out;
use crate::paths::{RESOURCES, TALLY};

/// How many names are told of each condition.
const NAMED: usize = 3;

/// Returns the engine of the resources, if this engine has it.
pub(crate) fn resources(engine: &EngineReport) -> Option<&EngineReport> {
    match engine.workers.get(RESOURCES)?.report.as_ref()? {
        Detail::Engine(resources) => Some(resources),
        Detail::Value(_) => None,
    }
}

/// Returns how the resources of an agent have fared, as far as it tells.
pub(crate) fn tally(engine: &EngineReport) -> Tally {
    let told = engine.workers.get(TALLY).and_then(|worker| worker.report.as_ref());
    told.and_then(tally_of).unwrap_or_default()
}

/// Reads a tally out of a report.
pub(crate) fn tally_of(detail: &Detail) -> Option<Tally> {
    match detail {
        Detail::Value(value) => Tally::deserialize(value).ok(),
        Detail::Engine(_) => None,
    }
}

/// Returns whether an engine is that of the resources.
pub(super) fn is_of_resources(engine: &EngineReport) -> bool {
    engine.path.rsplit('/').next() == Some(RESOURCES)
}

/// Returns whether a worker is the engine of the resources.
pub(super) fn is_resources(worker: &WorkerReport) -> bool {
    worker.path.rsplit('/').next() == Some(RESOURCES)
}

/// How a resource is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
pub(crate) enum Condition {
    /// As it is declared
    AsDeclared,
    /// Not as declared, for a reason of its own
    Degraded,
    /// Waits for one that is not as declared
    HeldBack,
    /// Stopped by hand
    Parked,
    /// Left alone by hand
    Paused,
    /// Not looked at yet
    Starting,
}

impl Condition {
    /// Returns how a resource is.
    pub(crate) fn of((name, resource): (&str, &WorkerReport), tally: &Tally) -> Self {
        let tally = tally.resources.get(&resource_name(name));
        let is_held_back = tally.is_some_and(|tally| tally.held_back_by.is_some());
        match (&resource.state, &resource.degraded) {
            (WorkerState::Parked, _) => Self::Parked,
            (WorkerState::Paused, _) => Self::Paused,
            (WorkerState::HeldBack, _) | (WorkerState::Waiting, None) => Self::HeldBack,
            (_, Some(_)) if is_held_back => Self::HeldBack,
            (WorkerState::BackingOff, None) | (_, Some(_)) => Self::Degraded,
            (WorkerState::Running | WorkerState::Done, None) => Self::AsDeclared,
            _ => Self::Starting,
        }
    }

    /// Returns it in words.
    pub(crate) fn words(self) -> &'static str {
        match self {
            Self::AsDeclared => "as declared",
            Self::Degraded => "degraded",
            Self::HeldBack => "held back",
            Self::Parked => "parked",
            Self::Paused => "paused",
            Self::Starting => "starting",
        }
    }
}

/// Writes how many resources there are, and how they are: those that are not as declared by name.
pub(super) fn summary(
    resources: &EngineReport,
    tally: &Tally,
    out: &mut Out<'_>,
) -> io::Result<()> {
    let mut conditions: BTreeMap<Condition, Vec<&str>> = BTreeMap::new();
    for (name, resource) in &resources.workers {
        conditions.entry(Condition::of((name, resource), tally)).or_default().push(name);
    }
    let count = |count: usize| {
        if count == 1 { "1 resource".to_owned() } else { format!("{count} resources") }
    };
    write!(out, "{}", count(resources.workers.len()))?;
    let well = conditions.remove(&Condition::AsDeclared).map_or(0, |names| names.len());
    write!(out, ": {well} {}", Condition::AsDeclared.words())?;
    for (condition, names) in conditions {
        let first: Vec<_> = names.iter().take(NAMED).map(|name| resource_name(name)).collect();
        let more = if names.len() > NAMED { ", ..." } else { "" };
        let (count, condition) = (names.len(), condition.words());
        write!(out, ", {count} {condition} ({}{more})", one_line(&first.join(", ")))?;
    }
    writeln!(out)?;
    let released = &tally.released;
    if released.is_empty() {
        return Ok(());
    }
    let first: Vec<_> = released.iter().take(NAMED).map(|released| &*released.name).collect();
    let more = if released.len() > NAMED { ", ..." } else { "" };
    let (count, first) = (released.len(), first.join(", "));
    writeln!(out, "{count} released, not kept any more ({}{more})", one_line(&first))
}
