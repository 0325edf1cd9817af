//! What workers tell the loop.

use std::num::NonZeroU64;
use std::sync::Arc;
use std::time::Duration;

use super::slot::{Ask, LastError, Uptime, WorkerSlot};
use super::{EventLoop, Message};
use crate::changes::Latest;
use crate::detail::Reporter;
use crate::event::EventKind;
use crate::finish::Finish;
use crate::machine::{End, EndKind, Generation, NodeId, Rest, Stage, Status};
use crate::value::Outputs;

impl EventLoop {
    pub(super) fn receive(&mut self, message: Message) {
        match message {
            Message::Started { node, generation, outputs, reporter } => {
                self.on_started(node, generation, outputs, reporter);
            }
            Message::Ended { node, generation, finish } => self.on_ended(node, generation, finish),
            Message::Changed { node, generation, index, latest } => {
                self.on_changed(node, generation, index, latest);
            }
            Message::Health { node, generation } => self.on_health(node, generation),
            Message::Overrun { node, generation } => self.machine.overrun(node, generation),
            Message::Unpin(node) => self.machine.unpin(node),
        }
    }

    fn on_started(
        &mut self,
        node: NodeId,
        generation: Generation,
        outputs: Outputs,
        reporter: Option<Reporter>,
    ) {
        let view = self.machine.view(node);
        let is_told = view.stage > Stage::Free;
        let Some(worker) = self.worker(node, generation).filter(|_| !view.is_overdue) else {
            self.reaper.take(outputs);
            return self.reaper.take_reporter(reporter);
        };
        worker.ask = reporter.map(Ask::new);
        // Who was told to stop offers nothing any more.
        if is_told {
            self.reaper.take(outputs);
        } else {
            worker.outputs = outputs;
            worker.uptime = Uptime::Now;
        }
        let stamp = NonZeroU64::new(self.now);
        let slot = &mut self.slots[node.index()];
        slot.started = stamp;
        let starts = slot.starts;
        self.machine.started(node, generation);
        self.note(node, None, || EventKind::Started { generation: starts });
        if self.machine.view(node).status == Status::Up {
            self.show(node);
        }
    }

    fn on_ended(&mut self, node: NodeId, generation: Generation, mut finish: Finish) {
        if self.worker(node, generation).is_none() {
            return self.reaper.take_finish(finish);
        }
        let view = self.machine.view(node);
        let Some(mut worker) = self.slots[node.index()].worker.take() else { return };
        let was_told = view.stage > Stage::Free;
        let is_overdue = view.is_overdue && !view.is_marked && !view.is_obsolete;
        finish.kind = match finish.kind {
            EndKind::Dropped if worker.is_aborted => EndKind::Stopped,
            EndKind::Done if was_told => EndKind::Stopped,
            kind => kind,
        };
        if is_overdue && finish.kind == EndKind::Stopped {
            finish = Finish::failed(self.overdue(node));
        }
        let kind = finish.kind;
        self.is_runtime_gone |= kind == EndKind::Dropped && !self.machine.is_killed();
        let ran = self.ran(node, &worker);
        let slot = &mut self.slots[node.index()];
        self.reaper.take(worker.let_go());
        self.reaper.take_ask(worker.ask);
        slot.stopped = NonZeroU64::new(self.now);
        slot.forget_health();
        self.show(node);
        self.note_end(node, finish, worker.is_obsolete);
        if kind == EndKind::Dropped {
            // Its runtime goes. The machine would stop all by itself, but only this says so.
            self.kill(None);
        }
        let at = Duration::from_nanos(self.now);
        self.machine.ended(node, generation, End { kind, ran, at });
        if view.stage == Stage::Stuck {
            tracing::info!(parent: None, worker = %self.path(node), "a stuck worker has ended after all");
        }
        let rest = self.machine.view(node);
        if rest.rest == Rest::Spent {
            self.note(node, None, || EventKind::Spent { failures: rest.failures });
        }
        self.waiting.on_gone(node, generation);
    }

    /// Returns how long a worker was up before it was told to stop, if it was: one that was up for long
    /// enough for its failures to be forgotten counts as up for that long.
    pub(super) fn ran(&self, node: NodeId, worker: &WorkerSlot) -> Duration {
        match (worker.uptime, self.slots[node.index()].started) {
            (Uptime::Now, Some(started)) => {
                Duration::from_nanos(self.now.saturating_sub(started.get()))
            }
            (Uptime::Long, _) => self.machine.reset_after(node),
            _ => Duration::ZERO,
        }
    }

    /// Remembers and tells why a worker has ended. What one of a former manifold has come to is only
    /// told.
    fn note_end(&mut self, node: NodeId, finish: Finish, is_obsolete: bool) {
        let kind = finish.kind;
        let failure = finish.failure.map(|failure| *failure);
        let (text, is_panic) = match &failure {
            Some(failure) => (Some(failure.text.clone()), failure.is_panic),
            None => (None, false),
        };
        self.note(node, None, || EventKind::Ended { end: kind, error: text, is_panic });
        if let Some(failure) = failure {
            if !is_obsolete {
                let error = LastError { text: failure.text, is_panic, at: self.now };
                self.slots[node.index()].rare_mut().last_error = Some(error);
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
        let is_up = self.machine.view(node).status == Status::Up;
        // Taken in any case: while a value waits here, no later one is told.
        let value = latest.take();
        self.reaper.take_latest(latest);
        let worker = self.worker(node, generation).filter(|worker| worker.is_up());
        let (Some(worker), Some(value)) = (worker, value.clone()) else {
            return self.reaper.take(value.into_iter().collect());
        };
        let (is_plain, is_obsolete) = (worker.is_plain, worker.is_obsolete);
        let old = worker.outputs.set(index, value).filter(|_| !is_plain);
        self.reaper.take(old.into_iter().collect());
        if is_obsolete {
            // What it offers is not what the name offers any more.
            return;
        }
        let kind = self.slots[node.index()].kinds()[index];
        self.show_one(node, kind);
        if !is_up {
            // It is about to stop; those of its users that a change bounces are already.
            return;
        }
        self.note(node, None, || EventKind::Changed { output: kind.name() });
        let port = self.port(kind.id());
        self.machine.changed(node, generation, port);
    }

    fn on_health(&mut self, node: NodeId, generation: Generation) {
        let worker = self.worker(node, generation);
        let Some(degraded) = worker.and_then(|worker| worker.stopper.take_health()) else { return };
        let slot = &mut self.slots[node.index()];
        let reason = degraded.as_ref().map(|degraded| degraded.reason.clone());
        let is_news = slot.degraded() != reason.as_deref();
        if is_news || degraded.is_some() {
            slot.rare_mut().degraded = degraded;
        }
        if is_news {
            self.note(node, None, || EventKind::Health { degraded: reason });
        }
    }
}
