//! Handles the messages of workers.

use std::num::NonZeroU64;
use std::sync::Arc;
use std::time::Duration;

use super::slot::{LastError, Uptime};
use super::waits::{Wait, What};
use super::{Because, EventLoop};
use crate::machine::ends::{End, Left};
use crate::machine::{EndKind, Generation, NodeId, Phase, Port, Rest, Status, StopStage, View};
use crate::seen::event::{EventKind, Origin};
use crate::seen::log::EventRef;
use crate::seen::report::ReportFn;
use crate::vocabulary::hash::Set;
use crate::vocabulary::value::{Kind, Outputs, Value};
use crate::worker::acknowledgement::Acknowledgement;
use crate::worker::finish::Finish;
use crate::worker::latest::{Latest, Published};
use crate::worker::message::{Message, Note};
use crate::worker::reporter::Reporter;

/// The least time for dropping what a worker offered. So even a worker without a grace is not stuck
/// during the short time that its drop takes.
const DROPPED_WITHIN: Duration = Duration::from_secs(1);

impl EventLoop {
    pub(super) fn receive(&mut self, message: Message) {
        match message {
            Message::Started { node, generation, outputs, reporter } => {
                self.on_started(node, generation, outputs, reporter);
            }
            Message::Ended { node, generation, finish, is_refused, dropping } => {
                if is_refused && self.registry.worker(node, generation).is_some() {
                    self.registry.slots[node].extras_mut().refused += 1;
                }
                self.on_ended(node, generation, finish, dropping);
            }
            Message::Changed { node, generation, index, latest, acknowledgements } => {
                self.on_changed(node, generation, index, latest);
                self.acknowledge(node, generation, acknowledgements);
            }
            Message::Health { node, generation } => self.on_health(node, generation),
            Message::Reports { node, generation, reporter } => {
                self.on_reports(node, generation, reporter);
            }
            Message::Noted(note) => self.on_noted(*note),
            Message::Gone { node, generation } => self.on_gone(node, generation),
            Message::Unpin(node) => self.registry.machine.unpin(node),
            Message::Awaits { node, generation, id, what } => {
                let what = What::Other(what);
                self.registry.add_wait(node, Wait { generation, id, what });
            }
            Message::AwaitOver { node, id } => self.registry.end_wait(node, id),
        }
    }

    fn on_started(
        &mut self,
        node: NodeId,
        generation: Generation,
        outputs: Outputs,
        reporter: Option<ReportFn>,
    ) {
        let view = self.registry.machine.view(node);
        let is_told = view.stage > StopStage::Free;
        // A worker that has ended does not come up, even if parts of it linger.
        let can_be = !view.is_overdue && view.phase != Phase::Lingering;
        let Some(worker) = self.registry.worker(node, generation).filter(|_| can_be) else {
            return self.discard_of(node, generation, (outputs, reporter));
        };
        worker.outputs = outputs;
        // A worker that was told to stop offers nothing any more.
        if is_told {
            self.withdraw(node);
        } else {
            worker.uptime = Uptime::Now;
        }
        if let Some(reporter) = reporter {
            self.set_reporter(node, generation, reporter);
        }
        let slot = &mut self.registry.slots[node];
        slot.note_up(self.pace.now);
        let starts = slot.starts;
        self.registry.machine.started(node, generation);
        self.note_because(node, (None, Because::LastOf(node)), || EventKind::Started {
            generation: starts,
        });
        if self.registry.machine.view(node).status == Status::Up {
            self.show(node);
        }
    }

    /// Handles the end of a worker's future. Withdraws its outputs and notes its end at once. The
    /// worker is gone once nothing of it is left.
    fn on_ended(
        &mut self,
        node: NodeId,
        generation: Generation,
        finish: Finish,
        dropping: Option<Box<dyn Send>>,
    ) {
        let slot = &self.registry.slots[node];
        let worker = slot.worker.as_ref().filter(|worker| worker.generation == generation);
        let Some(worker) = worker else { return self.discard((finish, dropping)) };
        let (ran, is_obsolete) =
            (self.registry.ran(node, worker, self.pace.now), worker.is_obsolete);
        let View { stage, is_installed, .. } = self.registry.machine.view(node);
        let lingers = worker.stopper.lingers();
        self.registry.waits.remove(&node);
        let slot = &mut self.registry.slots[node];
        slot.stopped = NonZeroU64::new(self.pace.now);
        if let Some(worker) = &mut slot.worker {
            worker.uptime = Uptime::None;
            worker.lingers = lingers;
            if let Some(reporter) = worker.reporter.take() {
                self.discard_of(node, generation, reporter.withdraw());
            }
        }
        self.withdraw(node);
        if dropping.is_some() {
            // Not dropped here: this may run foreign code that waits for the worker to be gone.
            self.discard(dropping);
        }
        let slot = &mut self.registry.slots[node];
        slot.forget_health();
        let kind = finish.kind;
        self.note_end(node, finish, is_obsolete);
        if lingers {
            self.note_because(node, (None, Because::LastOf(node)), || EventKind::Lingering);
        }
        if kind == EndKind::Dropped {
            self.ending.is_runtime_gone |= !self.registry.machine.is_killed();
            // A runtime that drops a worker is shutting down. The machine would stop all workers by
            // itself, but only this call notes the kill.
            self.kill(None);
        }
        let left = self.left_of(node);
        let at = Duration::from_nanos(self.pace.now);
        self.registry.machine.ended(node, generation, End { kind, ran, at, left });
        self.registry.refuse_circles_through(node);
        let rest = self.registry.machine.view(node);
        if rest.rest == Rest::Spent {
            self.note_because(node, (None, Because::LastOf(node)), || EventKind::Spent {
                failures: rest.failures,
            });
        }
        if is_installed && !rest.is_installed {
            self.take_out(node);
        }
        match left {
            Left::Nothing => self.forget_worker(node, generation, stage),
            Left::Something { .. } => self.wait_until_gone(node, generation),
        }
    }

    /// Takes out the manifold of a worker that has uninstalled itself. Its name is free, even while
    /// parts of the worker linger.
    fn take_out(&mut self, node: NodeId) {
        self.mark_obsolete(node);
        self.registry.remove_selections(node);
        let slot = &mut self.registry.slots[node];
        slot.forget_manifold();
        let Some(manifold) = slot.manifold.take() else { return };
        self.jobs.on_removed(slot.name(), &manifold);
        self.discard(manifold);
    }

    /// Returns what is left of a worker that has ended. The grace for it is at most the worker's
    /// own. If it is only being dropped, the grace is at least `DROPPED_WITHIN`.
    fn left_of(&self, node: NodeId) -> Left {
        let Some(worker) = &self.registry.slots[node].worker else { return Left::Nothing };
        let Left::Something { grace } = worker.stopper.left() else { return Left::Nothing };
        let own = self.registry.machine.grace(node);
        let bound = grace.map_or(own, |grace| grace.min(own));
        let has_more = worker.lingers;
        let grace = if has_more { grace.map(|_| bound) } else { Some(bound.max(DROPPED_WITHIN)) };
        Left::Something { grace }
    }

    /// Tells the rest of a worker to stop, and has `Gone` sent once nothing is left.
    fn wait_until_gone(&mut self, node: NodeId, generation: Generation) {
        let shared = Arc::downgrade(&self.shared);
        let Some(worker) = self.registry.worker(node, generation) else { return };
        worker.stopper.stop();
        worker.stopper.once_gone(move || {
            if let Some(shared) = shared.upgrade() {
                shared.inbox.send(Message::Gone { node, generation });
            }
        });
    }

    /// Handles that nothing is left of a worker that has ended.
    fn on_gone(&mut self, node: NodeId, generation: Generation) {
        let Some(worker) = self.registry.worker(node, generation) else { return };
        let (lingers, stage) = (worker.lingers, self.registry.machine.view(node).stage);
        self.registry.machine.gone(node, generation, Duration::from_nanos(self.pace.now));
        let view = self.registry.machine.view(node);
        let rests = matches!(view.rest, Rest::Delay | Rest::Backoff);
        // Otherwise no event would tell that the state is another one now.
        let is_followed = rests || !view.is_installed || self.registry.machine.can_start(node);
        if lingers || stage == StopStage::Stuck || !is_followed {
            self.note_because(node, (None, Because::LastOf(node)), || EventKind::Gone);
        }
        self.forget_worker(node, generation, stage);
    }

    /// Forgets a worker that is gone, and answers the callers that waited for that.
    fn forget_worker(&mut self, node: NodeId, generation: Generation, stage: StopStage) {
        self.registry.slots[node].worker = None;
        if stage == StopStage::Stuck {
            tracing::info!(parent: None, worker = %self.registry.path(node), "a stuck worker has ended after all");
        }
        self.jobs.waiting.on_gone(node, generation);
    }

    /// Makes the event of a worker's end and remembers its error. The error of a worker whose
    /// manifold was replaced is only in the event.
    fn note_end(&mut self, node: NodeId, finish: Finish, is_obsolete: bool) {
        let kind = finish.kind;
        let failure = finish.failure.map(|failure| *failure);
        let (text, is_panic) = match &failure {
            Some(failure) => (Some(failure.text.clone()), failure.is_panic),
            None => (None, false),
        };
        // A worker that was not told to stop ends by itself.
        let is_told = self.registry.machine.view(node).stage > StopStage::Free;
        let because = if is_told { Because::LastOf(node) } else { Because::Nothing };
        self.note_because(node, (None, because), || EventKind::Ended {
            end: kind,
            error: text,
            is_panic,
        });
        if let Some(failure) = failure {
            if !is_obsolete {
                let error = LastError {
                    text: failure.text,
                    is_panic,
                    backtrace: failure.backtrace,
                    at: self.pace.now,
                };
                self.registry.slots[node].extras_mut().last_error = Some(Box::new(error));
            }
            if let Some((severity, error)) = failure.fatal {
                self.on_fatal(node, severity, error);
            }
        }
    }

    fn on_changed(
        &mut self,
        node: NodeId,
        generation: Generation,
        index: usize,
        latest: Arc<Latest>,
    ) {
        let is_up = self.registry.machine.view(node).status == Status::Up;
        // Taken in any case: while a value waits here, the publisher sends no message for a newer
        // one.
        let Some(Published { value, same }) = latest.take() else { return };
        let worker = self.registry.worker(node, generation).filter(|worker| worker.is_up());
        let Some(worker) = worker else {
            return self.give_back((node, generation), &latest, vec![value]);
        };
        let (is_plain, is_obsolete) = (worker.is_plain, worker.is_obsolete);
        let old = worker.outputs.set(index, value).filter(|_| !is_plain);
        let mut used = Vec::from_iter(old);
        if is_obsolete {
            // This worker's value is no longer what the name offers.
            return self.give_back((node, generation), &latest, used);
        }
        let kind = self.registry.slots[node].kinds()[index];
        let whole = self.registry.port(kind.id());
        let same: Set<_> = same.into_iter().collect();
        // Some follow a part that is no longer selected, because their manifold was replaced.
        let is_same = |port| same.contains(&port);
        used.extend(self.registry.slots[node].show_changed(kind, |port| !is_same(port)));
        used.extend(self.registry.show_in_sets(node, Some(kind)));
        self.give_back((node, generation), &latest, used);
        if !is_up {
            // The worker is about to stop, and users that a change would bounce already stop.
            return;
        }
        self.note(node, None, || EventKind::Changed { output: kind.name() });
        // A part that was selected while the value was on its way counts as changed.
        let parts = self.parts_of(node, kind);
        let has_changed = |port| port == whole || parts.contains(&port) && !is_same(port);
        self.registry.machine.changed(node, generation, has_changed);
    }

    /// Acknowledges the values of a worker, which the followers read by now. If the worker's
    /// manifold was replaced or removed, they read the value before until the worker stops.
    fn acknowledge(
        &mut self,
        node: NodeId,
        generation: Generation,
        acknowledgements: Vec<Acknowledgement>,
    ) {
        let worker = self.registry.worker(node, generation);
        if worker.is_some_and(|worker| worker.is_up() && !worker.is_obsolete) {
            acknowledgements.into_iter().for_each(Acknowledgement::acknowledge);
        }
    }

    /// Returns the selected parts of an output.
    fn parts_of(&self, node: NodeId, kind: &'static Kind) -> Set<Port> {
        let parts = self.shared.environment.selections.of(node);
        let parts = parts.iter().flat_map(|parts| parts.values().flatten());
        parts.filter(|part| part.kind.is_same(kind)).map(|part| part.port).collect()
    }

    /// Gives values back to the worker that published them. That worker drops them.
    fn give_back(
        &mut self,
        (node, generation): (NodeId, Generation),
        publisher: &Latest,
        used: Vec<Value>,
    ) {
        if let Err(used) = publisher.give_back(used) {
            self.discard_of(node, generation, used);
        }
    }

    /// Drops a value of a worker outside the loop. The worker is not gone before that.
    fn discard_of<T: Send + 'static>(&mut self, node: NodeId, generation: Generation, value: T) {
        let linger = self.registry.worker(node, generation).map(|worker| worker.stopper.dropping());
        // The guard comes last, so that it is dropped last.
        self.discard((value, linger));
    }

    fn on_health(&mut self, node: NodeId, generation: Generation) {
        if self.registry.machine.view(node).phase == Phase::Lingering {
            return;
        }
        let worker = self.registry.worker(node, generation);
        let Some(degraded) = worker.and_then(|worker| worker.stopper.take_health()) else { return };
        if let Some(kind) = self.registry.slots[node].note_health(degraded, self.pace.now) {
            self.note_aside(node, None, kind);
        }
    }

    fn on_reports(&mut self, node: NodeId, generation: Generation, reporter: ReportFn) {
        let has_ended = self.registry.machine.view(node).phase == Phase::Lingering;
        if has_ended {
            return self.discard_of(node, generation, reporter);
        }
        self.set_reporter(node, generation, reporter);
    }

    fn set_reporter(&mut self, node: NodeId, generation: Generation, reporter: ReportFn) {
        let Some(worker) = self.registry.worker(node, generation) else {
            return self.discard_of(node, generation, reporter);
        };
        let reporter = Reporter::of(reporter, Some(worker.stopper.clone()));
        let before = worker.reporter.replace(reporter);
        if let Some(before) = before {
            self.discard_of(node, generation, before.withdraw());
        }
    }

    fn on_noted(&mut self, note: Note) {
        let Note { node, name, text, origin } = note;
        let (kind, origin) = (EventKind::Noted { text }, Arc::new(origin));
        // Its slot may belong to another name by now.
        if self.registry.slots[node].name.as_ref() == Some(&name) {
            self.note_aside(node, Some(&origin), kind);
        } else {
            self.outbox.note(Some(&name), (Some(&origin), EventRef::default()), kind);
        }
    }

    /// Makes an event about a worker that causes no other event.
    fn note_aside(&mut self, node: NodeId, origin: Option<&Arc<Origin>>, kind: EventKind) {
        let last = self.registry.slots[node].last_event;
        self.note(node, origin, || kind);
        let slot = &mut self.registry.slots[node];
        let event = std::mem::replace(&mut slot.last_event, last);
        if event != last {
            slot.extras_mut().aside_event = event;
        }
    }
}
