//! Carries out the machine's commands.

use std::mem;
use std::sync::Arc;
use std::time::Duration;

use smallvec::SmallVec;

use super::slot::{LastError, Slot, Uptime, WorkerSlot};
use super::{Because, EventLoop};
use crate::machine::{Cause, Command, Generation, Need, NodeId, Phase, Rest};
use crate::manifolds::Manifold;
use crate::seen::event::EventKind;
use crate::vocabulary::clock::stamp;
use crate::vocabulary::value::Outputs;
use crate::worker::context::Context;
use crate::worker::host::{Host, Identity};
use crate::worker::judge::overdue;
use crate::worker::launch::{FEW, InputValue, InputValues, Launch};
use crate::worker::stop::Stop;

impl EventLoop {
    pub(super) fn execute(&mut self, command: Command) {
        match command {
            Command::Start(node, generation) => self.start(node, generation),
            Command::Stop(node, generation) => self.stop(node, generation),
            Command::Lose(node, generation) => {
                let because = self.because(node);
                self.note_because(node, (None, because), || EventKind::InputLost);
                if let Some(worker) = self.registry.worker(node, generation) {
                    worker.stopper.lose_input();
                }
            }
            Command::Abort(node, generation) => self.abort(node, generation),
            Command::Stuck(node, generation) => {
                self.name_stuck(node);
                let name = self.registry.slots[node].name();
                self.jobs.waiting.on_stuck(node, generation, name.as_str());
            }
            Command::Arm(node, token, after) => {
                let at = self.pace.now.saturating_add(stamp(after) - 1);
                self.timers.arm(&self.registry.machine, at, node, token);
                self.note_wait(node, after);
            }
            Command::Removed(node) => {
                self.note_because(node, (None, Because::LastOf(node)), || EventKind::Removed);
                if !self.registry.machine.view(node).is_installed {
                    self.registry.slots[node].is_carrier = false;
                    self.registry.slots[node].is_source = false;
                    self.registry.slots[node].forget_manifold();
                }
            }
            Command::Freed(node) => {
                let slot = self.registry.forget(node);
                if slot.extras().is_some_and(|extras| !extras.sets.is_empty()) {
                    return self.discard(slot);
                }
                self.discard_manifold(slot.manifold);
            }
            Command::Finished => self.ending.is_finished = true,
        }
    }

    fn start(&mut self, node: NodeId, generation: Generation) {
        let Some(manifold) = self.registry.slots[node].manifold.clone() else { return };
        let input_values = self.input_values(node, &manifold);
        self.pace.nested_begun += usize::from(self.registry.is_nested(node));
        self.registry.keep_first_start(node);
        let cause = self.registry.machine.cause(node);
        let slot = &mut self.registry.slots[node];
        slot.note_start(cause, self.pace.now);
        slot.forget_health();
        slot.set_aborted(false);
        let host: Arc<dyn Host> = Arc::clone(&self.shared) as _;
        let (name, starts, asked_by) = (slot.name().clone(), slot.starts, slot.take_asked_by());
        let identity = Identity { host, node, generation, starts, name, asked_by };
        let (stopper, stop) = Stop::of(identity);
        let because = self.because(node);
        self.note_because(node, (None, because), || EventKind::Starting { generation: starts });
        let is_plain = manifold.blueprint.offers().iter().all(|kind| kind.is_plain());
        if !is_plain {
            stop.set_drops();
        }
        let ctx = Context::new(stop);
        let launch = Launch { input_values, ctx, settings: manifold.settings, entry: None };
        // Messages of the new worker wait in the inbox until its slot is filled.
        let task = manifold.blueprint.launch(launch);
        let slot = &mut self.registry.slots[node];
        // The slot is built in place, not moved there. This works only if the place is empty.
        slot.worker = None;
        slot.worker.get_or_insert_with(|| WorkerSlot {
            generation,
            stopper,
            task,
            outputs: Outputs::None,
            reporter: None,
            uptime: Uptime::None,
            is_plain,
            is_obsolete: false,
            lingers: false,
        });
    }

    /// Returns the values that a worker starts with, and records which inputs were present.
    fn input_values(&mut self, node: NodeId, manifold: &Manifold) -> InputValues {
        let declared = manifold.blueprint.inputs();
        if declared.is_empty() {
            self.registry.slots[node].note_present(&[]);
            return InputValues::new();
        }
        let edges: SmallVec<[_; FEW]> = self.registry.machine.inputs(node).collect();
        let mut input_values = InputValues::with_capacity(edges.len());
        let mut present: SmallVec<[bool; FEW]> = SmallVec::new();
        for (declaration, (edge, is_held)) in declared.iter().zip(edges) {
            let kind = declaration.kind.id();
            if edge.need == Need::Set {
                present.push(true);
                let followed = self.registry.follow_set(edge.target, declaration.kind);
                input_values.push(InputValue::Set(followed));
                continue;
            }
            let target: &mut Slot = &mut self.registry.slots[edge.target];
            present.push(target.worker.as_ref().is_some_and(WorkerSlot::is_up));
            input_values.push(if edge.need.follows() {
                let part = declaration.selection.as_ref().map(|_| edge.port);
                let first = target.value(kind);
                let receiver = target.follow(declaration.kind, part, &self.shared.environment);
                InputValue::live(edge.need, receiver, first)
            } else if is_held {
                target.value(kind).map_or(InputValue::Absent, InputValue::Value)
            } else {
                InputValue::Absent
            });
        }
        self.registry.slots[node].note_present(&present);
        input_values
    }

    fn stop(&mut self, node: NodeId, generation: Generation) {
        let because = self.because(node);
        self.note_because(node, (None, because), || EventKind::Stopping);
        self.pace.nested_begun += usize::from(self.registry.is_nested(node));
        let worker = self.registry.slots[node].worker.as_ref();
        let ran =
            worker.map_or(Duration::ZERO, |worker| self.registry.ran(node, worker, self.pace.now));
        let is_long = ran >= self.registry.machine.reset_after(node);
        let uptime = if is_long { Uptime::Long } else { Uptime::None };
        let Some(worker) = self.registry.worker(node, generation) else { return };
        worker.uptime = uptime;
        // A start that is a plain closure is over as soon as it is polled.
        worker.stopper.stop_start(worker.task.as_ref());
        self.withdraw(node);
    }

    /// Withdraws what the current worker of a name offers. The worker is not gone until all of that
    /// is dropped.
    pub(super) fn withdraw(&mut self, node: NodeId) {
        let slot = &mut self.registry.slots[node];
        let Some(worker) = &mut slot.worker else { return };
        let outputs = mem::take(&mut worker.outputs);
        // Plain outputs are dropped here: the next worker reuses their memory at once.
        let outputs = if worker.is_plain { Outputs::None } else { outputs };
        let mut unseen: Vec<_> = slot.show().collect();
        unseen.extend(self.registry.show_in_sets(node, None));
        if matches!(outputs, Outputs::None) && unseen.is_empty() {
            return;
        }
        let worker = self.registry.slots[node].worker.as_ref();
        let linger = worker.map(|worker| worker.stopper.dropping());
        // The guard comes last, so that it is dropped last.
        self.discard((outputs, unseen, linger));
    }

    fn abort(&mut self, node: NodeId, generation: Generation) {
        self.note_because(node, (None, Because::LastOf(node)), || EventKind::Aborted);
        self.registry.slots[node].set_aborted(true);
        let path = self.registry.path(node);
        tracing::warn!(parent: None, worker = %path, "a worker did not end in time; its future is dropped");
        let is_overdue = self.registry.machine.view(node).is_overdue;
        if let Some(worker) = self.registry.worker(node, generation) {
            worker.abort(is_overdue);
        }
    }

    pub(super) fn name_stuck(&mut self, node: NodeId) {
        self.ending.has_stuck = true;
        self.note_because(node, (None, Because::LastOf(node)), || EventKind::Stuck);
        tracing::error!(parent: None, worker = %self.registry.path(node), "a worker is stuck and left behind");
    }

    /// Returns the event that lets a worker start, or has it stop.
    fn because(&self, node: NodeId) -> Because {
        match self.registry.machine.cause(node).0 {
            Cause::Input(input) => Because::LastOf(input),
            Cause::Kill => Because::Kill,
            Cause::Call | Cause::Delay | Cause::Backoff | Cause::End => Because::LastOf(node),
        }
    }

    /// Records when the timer of a node ends, and makes an event if the node waits for a restart.
    fn note_wait(&mut self, node: NodeId, delay: Duration) {
        let view = self.registry.machine.view(node);
        let until = self.pace.now.saturating_add(stamp(delay) - 1);
        self.registry.slots[node].until = std::num::NonZeroU64::new(until);
        if view.phase == Phase::Idle && matches!(view.rest, Rest::Delay | Rest::Backoff) {
            // A bounce delay is no penalty for earlier failures.
            let failures = if view.rest == Rest::Backoff { view.failures } else { 0 };
            let because = Because::LastOf(node);
            self.note_because(node, (None, because), || EventKind::Waiting { delay, failures });
        }
    }

    /// Records that a start took too long, before the machine orders its drop.
    pub(super) fn note_overdue(&mut self, node: NodeId) {
        let view = self.registry.machine.view(node);
        if view.phase == Phase::Starting && !view.is_marked {
            let manifold = self.registry.slots[node].manifold.as_ref();
            let settings = manifold.and_then(|manifold| manifold.settings.as_deref());
            let text = overdue(settings, &self.shared.environment.policy);
            let error = LastError { text, is_panic: false, backtrace: None, at: self.pace.now };
            self.registry.slots[node].extras_mut().last_error = Some(Box::new(error));
        }
    }

    /// Answers the callers that wait for the machine to settle, if it has.
    pub(super) fn answer_at_rest(&mut self) {
        if self.registry.machine.is_settled() {
            self.jobs.waiting.on_rest(self.handled);
        }
    }
}

impl WorkerSlot {
    /// Tells the worker to stop, and drops its future.
    pub(super) fn abort(&self, is_overdue: bool) {
        self.stopper.abort(is_overdue, self.task.as_ref());
    }
}
