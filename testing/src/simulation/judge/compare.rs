//! Compares reports with what the judge knows (P5, P9).

use std::time::Duration;

use crankcase_engine::{InputReport, Report, WorkerReport, WorkerState};

use super::next::{Next, Rest};
use super::seat::{Phase, Seat};
use super::{Judge, Judged, ensure};

impl Judge {
    /// Compares a report of this moment with what the judge knows. At rest it also judges whether
    /// the state is right.
    pub(in crate::simulation) fn report(
        &self,
        report: &Report,
        at: Duration,
        is_at_rest: bool,
    ) -> Judged {
        let prefix = report.path.trim_end_matches('/');
        let mut met = 0;
        for (name, worker) in &report.workers {
            let Some(seat) = self.seat(&format!("{prefix}/{name}")) else { continue };
            met += usize::from(seat.is_installed);
            self.agrees(seat, worker, at)?;
            if is_at_rest {
                self.is_right(seat, worker, report)?;
            }
        }
        let Some(engine) = self.places.number(prefix) else { return Ok(()) };
        let installed =
            || self.seats.iter().filter(move |seat| seat.engine == engine && seat.is_installed);
        // It looks for the missing path only if the numbers differ.
        if met == installed().count() {
            return Ok(());
        }
        let is_left_out =
            |seat: &&Seat| !report.workers.keys().any(|name| seat.is_called(name.as_str()));
        match installed().find(is_left_out) {
            None => Ok(()),
            Some(seat) => {
                Err(format!("P9: the report leaves out {}, which is installed", seat.path))
            }
        }
    }

    fn agrees(&self, seat: &Seat, worker: &WorkerReport, at: Duration) -> Judged {
        let is_so = match worker.state {
            WorkerState::Running | WorkerState::Closing => seat.is_up(),
            WorkerState::Starting => seat.phase == Phase::Starting && !seat.is_told,
            WorkerState::HeldBack | WorkerState::Paused => {
                seat.is_up() || (seat.phase == Phase::Starting && !seat.is_told)
            }
            WorkerState::Stopping => seat.is_told,
            WorkerState::Aborting => seat.is_aborted,
            WorkerState::Stuck => seat.is_stuck,
            WorkerState::Lingering => seat.phase == Phase::Idle,
            _ => seat.phase == Phase::Idle,
        };
        ensure!(
            is_so && (seat.phase == Phase::Idle || worker.generation == seat.generation),
            "P9: the report says that {}, generation {}, is {}, but it is {:?}, generation {}",
            seat.path,
            worker.generation,
            worker.state,
            seat.phase,
            seat.generation
        );
        let rest = match worker.state {
            // No event tells that values of its last worker are still being dropped.
            WorkerState::Lingering => WorkerState::Lingering,
            state => self.rest_of(seat, at).unwrap_or(state),
        };
        ensure!(
            rest == worker.state,
            "P9: the report says that {} is {}, but it is {rest}",
            seat.path,
            worker.state
        );
        Ok(())
    }

    /// Returns the state that a report must show for an installed path without a worker; `None` if
    /// that is not known.
    fn rest_of(&self, seat: &Seat, at: Duration) -> Option<WorkerState> {
        let is_known = seat.next == Next::Whatever && !self.places.is_killed(seat.engine);
        let is_gone = seat.phase == Phase::Idle && !seat.lingers && !seat.is_stuck;
        if !is_gone || !seat.is_installed || !is_known {
            return None;
        }
        match seat.rest {
            _ if seat.is_parked => Some(WorkerState::Parked),
            Rest::Ready => Some(WorkerState::Waiting),
            Rest::Delay(until) => (at < until).then_some(WorkerState::Delayed),
            Rest::Backoff(until) => (at < until).then_some(WorkerState::BackingOff),
            Rest::Missing => Some(WorkerState::Missing),
            Rest::Done => Some(WorkerState::Done),
            Rest::Spent => Some(WorkerState::Spent),
            Rest::Unknown => None,
        }
    }

    fn is_right(&self, seat: &Seat, worker: &WorkerReport, report: &Report) -> Judged {
        let path = &seat.path;
        let gates = |need: &str| matches!(need, "required" | "live required");
        let missing = worker
            .inputs
            .iter()
            .find(|input| input.need == "required" && input.state != WorkerState::Running);
        match worker.state {
            WorkerState::Running => {
                if let Some(input) = missing {
                    let (name, state) = (&input.name, input.state);
                    return Err(format!("P5: {path} runs though its input {name} is {state}"));
                }
                self.holds_are_current(seat)
            }
            WorkerState::Waiting => {
                let waits =
                    |input: &InputReport| gates(input.need) && input.state != WorkerState::Running;
                let reason = worker.inputs.iter().any(waits);
                ensure!(reason, "P5: {path} waits at rest though all its inputs are there");
                Ok(())
            }
            WorkerState::Starting
            | WorkerState::Stopping
            | WorkerState::Closing
            | WorkerState::Lingering => {
                // A start that has not finished is no rest. A worker that closes waits for a stuck
                // one, or the engine has not settled.
                let is_busy = report
                    .workers
                    .values()
                    .any(|other| matches!(other.state, WorkerState::Starting | WorkerState::Stuck));
                ensure!(is_busy, "P5: {path} is {} though the engine has settled", worker.state);
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// Judges, at rest, that a worker uses nothing that is gone.
    fn holds_are_current(&self, seat: &Seat) -> Judged {
        for hold in &seat.holds {
            let input = &self.seats[hold.input];
            ensure!(
                input.is_up() && input.generation == hold.generation,
                "P5: {} runs with generation {} of {}, which is not there any more",
                seat.path,
                hold.generation,
                input.path
            );
            let changed = input.changes.iter().find(|(output, _)| *output == hold.output);
            ensure!(
                hold.is_selected || changed.is_none_or(|(_, at)| *at < seat.began),
                "P5: {} runs with a value of {} that has changed since",
                seat.path,
                input.path
            );
        }
        Ok(())
    }
}
