//! Changes: a group is checked as a whole, then applied as one wave, in slices.

use std::sync::Arc;

use super::check::Plan;
use super::slice::STEPS;
use super::waiting::answer;
use super::{Apply, EventLoop};
use crate::change::{Action, ChangeError};
use crate::event::{EventKind, Origin};
use crate::machine::{Edge, Generation, NodeId};

/// For how many workers of a group room is made that they share with others.
const AT_ONCE: usize = 64;

/// A group that is being checked or applied.
pub(super) struct Job {
    apply: Box<Apply>,
    plan: Plan,
    /// The workers that the group itself stops.
    ending: Vec<(NodeId, Generation)>,
    stage: Stage,
}

#[derive(Clone, Copy)]
enum Stage {
    Resolve(usize),
    Check(usize),
    Apply(usize),
}

impl Job {
    fn new(apply: Box<Apply>) -> Self {
        Self { apply, plan: Plan::default(), ending: Vec::new(), stage: Stage::Resolve(0) }
    }
}

impl EventLoop {
    /// Takes the next change from the queue.
    pub(super) fn begin_next_job(&mut self) -> Option<Job> {
        let mut apply = self.next_orphans().or_else(|| self.queue.pop_front())?;
        while self.machine.is_killed() {
            self.reaper.take_ops(apply.ops);
            answer(apply.reply, Err(Box::new(ChangeError::Stopped)));
            apply = self.queue.pop_front()?;
        }
        self.complete(&mut apply.ops);
        let count = apply.ops.len();
        if count > 1 {
            self.machine.reserve(count);
            self.names.reserve(count);
            self.slots.reserve(count);
            self.timers.reserve(count.min(AT_ONCE));
            if self.shared.log.is_followed() {
                // Each is installed and started.
                self.events.reserve(2 * count.min(AT_ONCE));
            }
        }
        self.machine.begin_group();
        let mut job = Job::new(apply);
        if count > 1 {
            job.plan.reserve(count);
        }
        Some(job)
    }

    /// Works on a group for one slice at most; returns it if there is more to do.
    pub(super) fn advance_job(&mut self, mut job: Job) -> Option<Job> {
        let mut steps = 0;
        loop {
            match self.advance(&mut job) {
                Ok(true) => {
                    self.machine.end_group();
                    // Who has ended meanwhile is not waited for.
                    let mut ending = job.ending;
                    ending.retain(|(node, generation)| self.worker(*node, *generation).is_some());
                    let Apply { ops, reply, .. } = *job.apply;
                    self.waiting.add(&ending, reply);
                    // Letting go of a hundred thousand names takes longer than a slice.
                    self.reaper.take_ops(ops);
                    return None;
                }
                Ok(false) => {}
                Err(error) => {
                    self.machine.end_group();
                    self.refuse(job, error);
                    return None;
                }
            }
            steps += 1;
            if steps % STEPS == 0 && self.is_slice_over() {
                return Some(job);
            }
        }
    }

    /// Takes one step of a group; returns whether it was the last.
    fn advance(&mut self, job: &mut Job) -> Result<bool, ChangeError> {
        let Apply { ops, caller, .. } = &mut *job.apply;
        job.stage = match job.stage {
            Stage::Resolve(at) if at < ops.len() => {
                self.resolve(&mut job.plan, ops, at)?;
                Stage::Resolve(at + 1)
            }
            Stage::Resolve(_) => Stage::Check(0),
            Stage::Check(at) if at < job.plan.linked.len() => {
                self.check(&job.plan, ops, job.plan.linked[at])?;
                Stage::Check(at + 1)
            }
            Stage::Check(_) => {
                self.check_cycles(&job.plan)?;
                self.check_own_end(&job.plan, ops, caller)?;
                Stage::Apply(0)
            }
            Stage::Apply(at) if at < ops.len() => {
                let (node, edges) = (job.plan.nodes[at], job.plan.take_edges(at));
                self.apply(node, &edges, &mut ops[at].action, caller.origin.as_ref());
                let view = self.machine.view(node);
                if view.is_marked && !matches!(ops[at].action, Action::Unpark) {
                    job.ending.push((node, view.generation));
                }
                Stage::Apply(at + 1)
            }
            Stage::Apply(_) => return Ok(true),
        };
        Ok(false)
    }

    fn apply(
        &mut self,
        node: NodeId,
        edges: &[Edge],
        action: &mut Action,
        origin: Option<&Arc<Origin>>,
    ) {
        let is_installed = self.machine.view(node).is_installed;
        match action {
            Action::Install { manifold, .. } => {
                self.disown(node);
                let policy = manifold.as_ref().and_then(|manifold| manifold.settings.as_ref());
                self.has_parts |= policy.is_some_and(|settings| settings.part_of.is_some());
                let policy = policy.map(|settings| Arc::new(settings.policy(&self.shared.policy)));
                let old =
                    std::mem::replace(&mut self.slots[node.index()].manifold, manifold.take());
                self.reaper.take_manifold(old);
                self.machine.install(node, edges, policy);
                let kind = if is_installed { EventKind::Replaced } else { EventKind::Installed };
                self.note(node, origin, || kind);
            }
            // A worker may have uninstalled itself since the group was checked.
            _ if !is_installed => {}
            Action::Uninstall { .. } => {
                self.note(node, origin, || EventKind::Uninstalled);
                self.disown(node);
                self.machine.uninstall(node);
                let old = self.slots[node.index()].manifold.take();
                self.reaper.take_manifold(old);
            }
            Action::Bounce => {
                self.note(node, origin, || EventKind::Bounced);
                self.machine.bounce(node);
            }
            Action::Park => {
                self.note(node, origin, || EventKind::Parked);
                self.machine.park(node);
            }
            Action::Unpark => {
                self.note(node, origin, || EventKind::Unparked);
                self.machine.unpark(node);
            }
        }
    }

    /// Says that a live worker belongs to a manifold that is no longer installed, and forgets what its
    /// workers have come to.
    fn disown(&mut self, node: NodeId) {
        let slot = &mut self.slots[node.index()];
        if let Some(worker) = &mut slot.worker {
            worker.is_obsolete = true;
        }
        slot.forget_error();
    }

    /// Refuses a group. The names that were only made for it are forgotten by the machine.
    pub(super) fn refuse(&mut self, job: Job, error: ChangeError) {
        let Apply { ops, reply, .. } = *job.apply;
        self.reaper.take_ops(ops);
        answer(reply, Err(Box::new(error)));
    }
}
