//! The state of a worker, as reports and graphs show it.

use crate::machine::{Phase, Rest, StopStage, View};
use crate::seen::report::WorkerState;

/// Returns the state of a node's worker.
pub(super) fn state_of(view: &View) -> WorkerState {
    match (view.phase, view.stage, view.rest) {
        (_, StopStage::Stuck, _) => WorkerState::Stuck,
        (Phase::Lingering, _, _) => WorkerState::Lingering,
        (_, StopStage::Aborted, _) => WorkerState::Aborting,
        (_, StopStage::Told, _) => WorkerState::Stopping,
        (Phase::Running, _, _) if view.is_marked => WorkerState::Closing,
        (Phase::Running, _, _) => WorkerState::Running,
        (Phase::Starting, _, _) => WorkerState::Starting,
        _ if !view.is_installed => WorkerState::Absent,
        _ if view.is_parked => WorkerState::Parked,
        (_, _, Rest::Ready) => WorkerState::Waiting,
        (_, _, Rest::Delay) => WorkerState::Delayed,
        (_, _, Rest::Backoff) => WorkerState::BackingOff,
        (_, _, Rest::Missing) => WorkerState::Missing,
        (_, _, Rest::Done) => WorkerState::Done,
        (_, _, Rest::Spent) => WorkerState::Spent,
    }
}
