//! The state of a worker, as reports and graphs show it.

use super::registry::Registry;
use crate::machine::{NodeId, Phase, Rest, StopStage, View};
use crate::seen::report::WorkerState;

impl Registry {
    /// Returns the state of a name's worker.
    pub(super) fn state(&self, node: NodeId) -> WorkerState {
        let slot = &self.slots[node];
        match state_of(&self.machine.view(node)) {
            WorkerState::Running | WorkerState::Starting if slot.is_paused() => WorkerState::Paused,
            WorkerState::Running | WorkerState::Starting if slot.is_held_back() => {
                WorkerState::HeldBack
            }
            state => state,
        }
    }
}

/// Returns the state of a node's worker, apart from what the worker says of itself.
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
