//! What a report says of a worker, in a small form.

use std::num::NonZeroU64;

use super::slot::{Attempts, FirstStart};
use crate::seen::event::Origin;
use crate::seen::report::{
    AttemptsReport, ErrorReport, InputReport, StartReport, WorkerReport, WorkerState,
};
use crate::vocabulary::clock::{Timestamp, Wall};

/// What a report says of a worker, except for its name.
#[derive(Clone)]
pub(super) struct WorkerSummary {
    pub(super) state: WorkerState,
    pub(super) generation: u32,
    pub(super) starts: u32,
    pub(super) failures: u32,
    pub(super) is_essential: bool,
    pub(super) was_aborted: bool,
    pub(super) installed: Option<NonZeroU64>,
    pub(super) last_start: Option<FirstStart>,
    pub(super) last_event: Option<u64>,
    pub(super) started: Option<NonZeroU64>,
    pub(super) stopped: Option<NonZeroU64>,
    pub(super) until: Option<NonZeroU64>,
    /// `None` if all of it is empty, as it is for most workers of a large engine.
    pub(super) extras: Option<Box<RareSummary>>,
}

#[derive(Clone, Default)]
pub(super) struct RareSummary {
    pub(super) blocks_for: Option<f64>,
    pub(super) degraded: Option<String>,
    pub(super) waits_for: Option<String>,
    pub(super) parked_by: Option<Origin>,
    pub(super) inputs: Vec<InputReport>,
    pub(super) error: Option<ErrorReport>,
    pub(super) attempts: Option<Attempts>,
    pub(super) first_start: Option<FirstStart>,
}

impl RareSummary {
    pub(super) fn is_empty(&self) -> bool {
        let Self {
            blocks_for,
            degraded,
            waits_for,
            parked_by,
            inputs,
            error,
            attempts,
            first_start,
        } = self;
        blocks_for.is_none()
            && degraded.is_none()
            && waits_for.is_none()
            && parked_by.is_none()
            && inputs.is_empty()
            && error.is_none()
            && attempts.is_none()
            && first_start.is_none()
    }
}

impl WorkerSummary {
    /// Makes the report of the worker with this path. `wall` is when its engine began.
    pub(super) fn into_report(self, path: String, wall: Wall) -> WorkerReport {
        let at = |stamp: NonZeroU64| -> Timestamp { wall.at(stamp.get()).into() };
        let start = |start: FirstStart| StartReport {
            generation: start.generation,
            ready: wall.at(start.ready).into(),
            waited_for: start.waited_for,
            begun: wall.at(start.begun).into(),
            up: start.up.map(at),
            failed_attempts: start.failed_attempts,
        };
        let RareSummary {
            blocks_for,
            degraded,
            waits_for,
            parked_by,
            inputs,
            error,
            attempts,
            first_start,
        } = self.extras.map(|extras| *extras).unwrap_or_default();
        let attempts = attempts.map(|Attempts { count, first, last }| AttemptsReport {
            count,
            first: wall.at(first).into(),
            last: wall.at(last).into(),
        });
        WorkerReport {
            path,
            state: self.state,
            generation: self.generation,
            starts: self.starts,
            failures: self.failures,
            is_essential: self.is_essential,
            was_aborted: self.was_aborted,
            blocks_for,
            degraded,
            waits_for: waits_for.into_iter().collect(),
            parked_by,
            inputs,
            installed: self.installed.map(at),
            last_start: self.last_start.map(start),
            first_start: first_start.map(start),
            attempts,
            last_event: self.last_event,
            started: self.started.map(at),
            stopped: self.stopped.map(at),
            until: self.until.map(at),
            error,
            report: None,
            reporter: None,
        }
    }
}
