//! The answer to why a worker is not running, as plain data.

use std::fmt;

use serde::Serialize;

use super::event::Origin;
use super::report::WorkerState;

/// Why a worker is not running, or is degraded: the chain from it to the root cause.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Why {
    /// The steps of the chain: first the worker that was asked about, last the root cause.
    pub steps: Vec<WhyStep>,
}

/// One worker on the way to a root cause.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct WhyStep {
    /// The worker's path.
    pub path: String,
    /// What it is doing.
    pub state: WorkerState,
    /// How many times in a row it has failed.
    pub failures: u32,
    /// Why it is degraded. Otherwise its last error, if that is the reason for its state.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// The names of other workers of its engine that it says it waits for, or that hold it back:
    /// see [`Health::waits_for`](crate::Health::waits_for) and
    /// [`Health::held_back`](crate::Health::held_back).
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub waits_for: Vec<String>,
    /// The origin of the call that parked it. `None` if it is not parked, or if that call had none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parked_by: Option<Origin>,
    /// The installed name nearest to its own, if nothing is installed under its own and no worker
    /// was ever started there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nearest: Option<String>,
    /// What it waits for apart from its inputs, in its own words or as paths.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub awaits: Option<String>,
    /// For how long it has been starting, in seconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub starting_for: Option<f64>,
    /// How long its start may take in all, in seconds, if it is starting.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub start_timeout: Option<f64>,
    /// For how long it has blocked its thread, in seconds; see [`WorkerReport`](crate::WorkerReport).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub blocks_for: Option<f64>,
    /// How long it still waits, in seconds, if it waits for a time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_try_in: Option<f64>,
}

impl WhyStep {
    /// Returns a step that tells nothing but a worker's state.
    pub(crate) fn new(path: String, state: WorkerState) -> Self {
        Self {
            path,
            state,
            failures: 0,
            error: None,
            waits_for: Vec::new(),
            parked_by: None,
            nearest: None,
            awaits: None,
            starting_for: None,
            start_timeout: None,
            blocks_for: None,
            next_try_in: None,
        }
    }
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, step) in self.steps.iter().enumerate() {
            if index > 0 {
                f.write_str(", which ")?;
            } else {
                write!(f, "{} ", step.path)?;
            }
            match self.steps.get(index + 1) {
                Some(next) => write_link(f, step, next)?,
                None => write_cause(f, step)?,
            }
        }
        Ok(())
    }
}

/// Writes how a worker depends on the next one of the chain.
fn write_link(f: &mut fmt::Formatter<'_>, step: &WhyStep, next: &WhyStep) -> fmt::Result {
    match step.state {
        WorkerState::Closing => f.write_str("closes after ")?,
        WorkerState::HeldBack => f.write_str("is held back by ")?,
        WorkerState::Starting => {
            write_start(f, step)?;
            f.write_str(", and waits for ")?;
        }
        _ => f.write_str("waits for ")?,
    }
    f.write_str(&next.path)?;
    match &step.error {
        // Its own words say what it waits for there.
        Some(reason) if !step.waits_for.is_empty() => write!(f, " ({reason})"),
        _ => Ok(()),
    }
}

/// Writes that a worker is starting, for how long it has been, and for how long it may.
fn write_start(f: &mut fmt::Formatter<'_>, step: &WhyStep) -> fmt::Result {
    f.write_str("is starting")?;
    let (Some(so_far), Some(timeout)) = (step.starting_for, step.start_timeout) else {
        return Ok(());
    };
    write!(f, " ({so_far:.1} s of at most {timeout:.1} s)")
}

fn write_cause(f: &mut fmt::Formatter<'_>, step: &WhyStep) -> fmt::Result {
    match (step.state, step.failures) {
        (WorkerState::BackingOff | WorkerState::Spent, 1) => f.write_str("failed once")?,
        (WorkerState::BackingOff | WorkerState::Spent, times) => {
            write!(f, "failed {times} times")?;
        }
        (WorkerState::Absent, _) => f.write_str("is not installed")?,
        (WorkerState::Missing, _) => f.write_str("misses something")?,
        (WorkerState::Running, _) if step.error.is_some() => f.write_str("is degraded")?,
        (WorkerState::Starting, _) if step.error.is_some() => f.write_str("is not up yet")?,
        (WorkerState::Starting, _) => write_start(f, step)?,
        (state, _) => write!(f, "is {state}")?,
    }
    if let Some(seconds) = step.blocks_for {
        write!(f, " and blocks its thread for {seconds:.1} s")?;
    }
    if let Some(error) = &step.error {
        write!(f, ": {error}")?;
    }
    if let Some(awaits) = &step.awaits {
        write!(f, ", and waits for {awaits}")?;
    }
    if let Some(origin) = &step.parked_by {
        write!(f, " ({origin})")?;
    }
    if let Some(nearest) = &step.nearest {
        write!(f, "; did you mean {nearest:?}?")?;
    }
    match step.next_try_in {
        Some(seconds) => write!(f, "; next try in {seconds:.1} s"),
        None if step.state == WorkerState::Spent => f.write_str("; parked until an input changes"),
        None => Ok(()),
    }
}
