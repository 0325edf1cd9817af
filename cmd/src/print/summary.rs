//! How the resources of a site are, in the words of those who declare them.

use std::collections::BTreeMap;
use std::io::{self, Write};

use crankcase_resources::resource_name;
use crankcase_status::wire::{Detail, EngineReport, WorkerReport, WorkerState};

use super::one_line;
use crate::paths::RESOURCES;

/// How many names are told of each condition.
const NAMED: usize = 3;

/// Returns the engine of the resources, if this engine has it.
pub(super) fn resources(engine: &EngineReport) -> Option<&EngineReport> {
    match engine.workers.get(RESOURCES)?.report.as_ref()? {
        Detail::Engine(resources) => Some(resources),
        Detail::Value(_) => None,
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

/// What is said of a resource that is as it should be.
pub(super) const AS_DECLARED: &str = "as declared";

/// Returns how a resource is.
pub(super) fn condition(resource: &WorkerReport) -> &'static str {
    match (&resource.state, &resource.degraded) {
        (WorkerState::Parked, _) => "parked",
        (WorkerState::Waiting, None) => "held back",
        (_, Some(reason)) if reason.starts_with("held back by ") => "held back",
        (WorkerState::BackingOff, None) | (_, Some(_)) => "degraded",
        (WorkerState::Running | WorkerState::Done, None) => AS_DECLARED,
        _ => "starting",
    }
}

/// Writes how many resources there are, and how they are: those that are not as declared by name.
pub(super) fn summary(resources: &EngineReport, out: &mut dyn Write) -> io::Result<()> {
    let mut conditions: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for (name, resource) in &resources.workers {
        conditions.entry(condition(resource)).or_default().push(name);
    }
    let count = |count: usize| {
        if count == 1 { "1 resource".to_owned() } else { format!("{count} resources") }
    };
    write!(out, "{}", count(resources.workers.len()))?;
    let well = conditions.remove(AS_DECLARED).map_or(0, |names| names.len());
    write!(out, ": {well} {AS_DECLARED}")?;
    for (condition, names) in conditions {
        let first: Vec<_> = names.iter().take(NAMED).map(|name| resource_name(name)).collect();
        let more = if names.len() > NAMED { ", ..." } else { "" };
        write!(out, ", {} {condition} ({}{more})", names.len(), one_line(&first.join(", ")))?;
    }
    writeln!(out)
}
