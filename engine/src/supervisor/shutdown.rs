//! How the engine itself ends: kills, fatal errors, and workers that are left behind.

use std::mem;
use std::sync::Arc;

use super::call::{Call, Question};
use super::last_report::Ended;
use super::life::{Fatal, Life, Verdict};
use super::registry::Registry;
use super::{EventLoop, Shared};
use crate::change::ChangeError;
use crate::machine::{NodeId, StopStage};
use crate::seen::event::{EventKind, Origin};
use crate::vocabulary::clock::stamp;
use crate::vocabulary::error::SharedError;
use crate::vocabulary::settings::Severity;
use crate::vocabulary::wake::wake;
use crate::worker::stop::Stop;
use crate::worker::stop::cell::LeftWorker;

/// An engine that has ended. Its drop makes the summary for the last report, also if its runtime
/// shuts down.
struct ToSumUp(Arc<Shared>);

impl Drop for ToSumUp {
    fn drop(&mut self) {
        self.0.last_report.sum_up();
    }
}

impl EventLoop {
    /// Keeps the gravest fatal error, and begins to stop the engine.
    pub(super) fn on_fatal(&mut self, node: NodeId, severity: Severity, error: SharedError) {
        let is_gravest = self.ending.fatal.as_ref().is_none_or(|fatal| fatal.severity < severity);
        if is_gravest {
            let fatal = Fatal { severity, path: self.registry.path(node), error };
            let before = self.ending.fatal.replace(fatal);
            self.discard(before.map(|fatal| fatal.error));
        } else {
            self.discard(error);
        }
        self.kill(None);
    }

    pub(super) fn kill(&mut self, origin: Option<&Arc<Origin>>) {
        if !self.registry.machine.is_killed() {
            self.registry.killed = self.outbox.note_engine(origin, EventKind::Killed);
            self.ending.killed_until = self
                .ending
                .kill_deadline
                .map(|deadline| self.pace.now.saturating_add(stamp(deadline) - 1));
            if let (Some(until), Some(deadline)) =
                (self.ending.killed_until, self.ending.kill_deadline)
            {
                tracing::debug!(parent: None, ?deadline, until, "the engine's kill has a deadline");
            }
        }
        self.registry.machine.kill();
        if matches!(*self.ending.life.borrow(), Life::Running) {
            self.ending.set_life(Life::Stopping);
        }
        self.jobs.waiting.refuse_all();
        if let Some(mut job) = self.jobs.current.take() {
            self.end_job(&mut job);
            self.conclude(*job, Err(Box::new(ChangeError::Stopped)));
        }
    }

    /// Warns that workers run on although the last handle that counts was dropped.
    pub(super) fn note_disowned(&self) {
        let workers = self.registry.machine.live();
        if workers > 0 && !self.registry.machine.is_killed() {
            let engine = self.shared.environment.own_path();
            tracing::warn!(
                parent: None,
                engine,
                workers,
                "the last handle of the engine was dropped, and its workers run on; stop it first"
            );
        }
    }

    /// Ends the engine and publishes its verdict. With many workers the summary for the last report
    /// takes long, so it is made when someone asks for that report, or after those who wait for the
    /// end were woken.
    pub(super) async fn finish(mut self: Box<Self>) {
        self.outbox.note_engine(None, EventKind::Finished);
        self.hand_over_events();
        self.end_events();
        let left_behind = self.shared.left_behind.get_or_init(|| self.left_behind());
        let verdict = match &self.ending.fatal {
            Some(fatal) => Verdict::of(fatal),
            None if self.ending.is_runtime_gone => Verdict::RuntimeGone,
            None if !left_behind.is_empty() => Verdict::LeftBehind,
            None => Verdict::Ended,
        };
        if matches!(verdict, Verdict::Ended) && self.shared.outer.is_none() {
            let engine = self.shared.environment.own_path();
            tracing::info!(parent: None, engine, "the engine has ended in order");
        }
        self.refuse_calls();
        if let Some(selections) = self.shared.environment.selections.take() {
            self.discard(selections);
        }
        let empty = Registry::new(Arc::clone(&self.shared.environment));
        let registry = Box::new(mem::replace(&mut self.registry, empty));
        let outer = self.shared.outer.as_ref().map(Stop::dropping);
        let (at, error) = (self.pace.now, verdict.text());
        self.shared.last_report.keep(Ended { registry, at, error, outer });
        let to_sum_up = ToSumUp(Arc::clone(&self.shared));
        self.ending.set_life(Life::Ended(verdict));
        drop(self);
        tokio::task::yield_now().await;
        drop(to_sum_up);
    }

    /// Returns the workers that are left behind, sorted by their paths. For a nested engine that has
    /// ended, lists the workers that it has left behind and that are not gone yet. If none is left,
    /// lists the nested engine itself, unless it is gone too. Looks at no names if no worker was ever
    /// stuck, since that takes long.
    fn left_behind(&self) -> Vec<LeftWorker> {
        if !self.ending.has_stuck {
            return Vec::new();
        }
        let (mut left, mut held) = (Vec::new(), Vec::new());
        let mut is_here = |worker: &LeftWorker| !worker.is_gone(|cell| held.push(cell));
        for node in (0..self.registry.slots.len()).map(NodeId::from_index) {
            let Some(worker) = &self.registry.slots[node].worker else { continue };
            let own = worker.stopper.to_left_worker(self.registry.path(node));
            let Some(mut inside) = worker.stopper.left_inside() else {
                left.push(own);
                continue;
            };
            inside.retain(&mut is_here);
            // The message that it is gone may be unread.
            if inside.is_empty() && is_here(&own) {
                left.push(own);
            }
            left.extend(inside);
        }
        if !held.is_empty() {
            self.discard(held);
        }
        left.sort_unstable_by(|a, b| a.path.cmp(&b.path));
        left
    }

    /// If the loop is dropped before the engine's end, tells those who wait for the end or follow
    /// the events.
    pub(super) fn say_if_lost(&mut self) {
        if matches!(*self.ending.life.borrow(), Life::Ended(_)) {
            return;
        }
        let verdict = match &self.ending.fatal {
            Some(fatal) => Verdict::of(fatal),
            None if self.is_in_turn => Verdict::Panicked,
            None => Verdict::Lost,
        };
        self.hand_over_events();
        self.end_events();
        self.ending.set_life(Life::Ended(verdict));
    }

    /// Ends the events. A nested engine leaves that to the outermost one.
    fn end_events(&self) {
        if self.ending.linger.is_none() {
            self.shared.environment.log.close();
        }
    }

    /// Refuses all open calls, and closes the inbox to new ones: a later caller does not wait for
    /// the last report.
    pub(super) fn refuse_calls(&mut self) {
        let unread = self.shared.inbox.close();
        self.unread.messages.extend(unread.messages);
        let calls = mem::take(&mut self.unread.calls);
        for call in calls.into_iter().chain(unread.calls) {
            match call {
                Call::Change(job) => self.jobs.queue.push_back(job),
                Call::Ask(mut question) => {
                    if let Question::Preview(ops, _) = &mut *question {
                        let ops = mem::take(ops);
                        self.discard_ops(ops);
                    }
                    wake(|| drop(question));
                }
                Call::Kill(_) | Call::Disowned => {}
            }
        }
        for mut job in mem::take(&mut self.jobs.queue) {
            self.discard_ops(mem::take(&mut job.ops));
            self.conclude(*job, Err(Box::new(ChangeError::Stopped)));
        }
        self.jobs.waiting.refuse_all();
        let walks = mem::take(&mut self.walks);
        if !walks.is_empty() {
            self.discard(walks);
        }
    }

    /// Ends the engine at the deadline of a kill: aborts all live workers and leaves them behind.
    /// Not sliced: a worker that ended between two slices would not be left behind.
    pub(super) fn abandon(&mut self) {
        let mut live: Vec<_> = self.registry.nodes().collect();
        live.retain(|node| self.registry.slots[*node].worker.is_some());
        live.sort_unstable();
        for node in live {
            if self.registry.machine.view(node).stage != StopStage::Stuck {
                self.name_stuck(node);
            }
            if let Some(worker) = &self.registry.slots[node].worker {
                worker.abort(false);
            }
        }
        self.ending.is_finished = true;
    }
}
