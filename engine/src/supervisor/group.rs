//! Checks a group of changes as a whole, then applies it as one wave, in slices.

use std::mem;
use std::num::NonZeroU64;
use std::sync::Arc;

use super::EventLoop;
use super::applied::ChangeResult;
use super::job::{Job, JobStage};
use super::pace::STEPS;
use super::plan::Planned;
use super::reply::answer;
use crate::change::{Action, ChangeError};
use crate::machine::cycles::CycleSearch;
use crate::machine::{self, Cause, Edge, Generation, NodeId, Phase, Scope};
use crate::manifolds::Manifold;
use crate::seen::event::{EventKind, Origin};

/// Room for at most this many workers is reserved in the timers and the outbox, which all workers
/// share.
const AT_ONCE: usize = 64;

/// Counts the steps of a slice, so that the clock is read only now and then.
#[derive(Default)]
struct StepCount {
    taken: usize,
}

impl StepCount {
    fn are_enough(&mut self, event_loop: &EventLoop) -> bool {
        self.taken += 1;
        self.taken.is_multiple_of(STEPS) && event_loop.pace.is_slice_over()
    }

    /// Like `are_enough`, but reads the clock after each step that found something wrong: the
    /// search for the nearest name takes long.
    fn are_enough_after(&mut self, found: bool, event_loop: &EventLoop) -> bool {
        self.are_enough(event_loop) || found && event_loop.pace.is_slice_over()
    }
}

impl EventLoop {
    /// Begins and returns the next group. A group that is refused here is answered at once.
    pub(super) fn begin_next_job(&mut self) -> Option<Box<Job>> {
        loop {
            let mut job = self.jobs.next(&self.registry)?;
            match self.begin(&mut job) {
                Ok(()) => return Some(job),
                Err(error) => self.conclude(*job, Err(error)),
            }
        }
    }

    /// Begins a group, or refuses it if the engine was killed.
    pub(super) fn begin(&mut self, job: &mut Job) -> ChangeResult {
        if self.registry.machine.is_killed() {
            self.discard_ops(mem::take(&mut job.ops));
            return Err(Box::new(ChangeError::Stopped));
        }
        self.registry.complete(&mut job.ops);
        let count = job.ops.len();
        if count > 1 {
            self.registry.reserve(count);
            self.timers.reserve(count.min(AT_ONCE));
            // Each op makes two events: installed and starting.
            self.outbox.reserve(2 * count.min(AT_ONCE));
            job.plan.reserve(count);
        }
        self.registry.machine.begin_group();
        Ok(())
    }

    /// Works on a group for one slice at most. Returns the result once there is no more to do.
    pub(super) fn advance_job(&mut self, job: &mut Job) -> Option<ChangeResult> {
        let changed = match self.advance(job) {
            Ok(false) => return None,
            Ok(true) => Ok(()),
            Err(error) => Err(Box::new(error)),
        };
        self.end_job(job);
        Some(changed)
    }

    /// Ends the work on a group. If it was not applied in full, the machine's group ends here; then
    /// the machine forgets the names that were only made for it.
    pub(super) fn end_job(&mut self, job: &mut Job) {
        if !matches!(job.stage, JobStage::Settle) {
            self.registry.machine.end_group();
        }
        // The caller does not wait for workers that have ended meanwhile.
        job.ending.retain(|(node, generation)| self.registry.worker(*node, *generation).is_some());
        // Dropping a hundred thousand names takes longer than a slice.
        self.discard_ops(mem::take(&mut job.ops));
    }

    /// Answers the caller of a group. A refusal is answered at once. Otherwise the caller is
    /// answered when the workers that the group stops are gone; all that can start was told to
    /// start by then.
    pub(super) fn conclude(&mut self, job: Job, changed: ChangeResult) {
        let Some(reply) = job.reply else { return };
        let is_stuck = |(node, _): &&(NodeId, Generation)| {
            self.registry.machine.view(*node).stage == machine::StopStage::Stuck
        };
        match (changed, job.ending.iter().find(is_stuck)) {
            (Ok(()), None) => self.jobs.waiting.add(&job.ending, reply),
            (Ok(()), Some((node, _))) => {
                let name = self.registry.slots[*node].name().as_str().to_owned();
                answer(reply, Err(Box::new(ChangeError::Stuck { name })));
            }
            (Err(error), _) => answer(reply, Err(error)),
        }
    }

    /// Takes the steps of a group until the slice is over, and returns whether the group is
    /// finished.
    fn advance(&mut self, job: &mut Job) -> Result<bool, ChangeError> {
        let mut steps = StepCount::default();
        if let JobStage::Resolve(first) = job.stage {
            for at in first..job.ops.len() {
                let before = job.faults.count();
                self.registry.resolve(&mut job.plan, &job.ops, at, &mut job.faults);
                let has_found = job.faults.count() > before;
                if steps.are_enough_after(has_found, self) {
                    job.stage = JobStage::Resolve(at + 1);
                    return Ok(false);
                }
            }
            job.stage = JobStage::Check(0);
        }
        if let JobStage::Check(first) = job.stage {
            for at in first..job.plan.linked.len() {
                self.registry.check(&job.plan, &job.ops, job.plan.linked[at], &mut job.faults);
                if steps.are_enough(self) {
                    job.stage = JobStage::Check(at + 1);
                    return Ok(false);
                }
            }
            job.stage = JobStage::Search(CycleSearch::new(job.plan.linked.len()));
        }
        if let JobStage::Search(search) = &mut job.stage {
            while self.registry.search_cycle(&job.plan, search, &mut job.faults) {
                if steps.are_enough(self) {
                    return Ok(false);
                }
            }
            self.registry.check_own_end(&job.plan, &job.ops, &job.caller, &mut job.faults);
            mem::take(&mut job.faults).into_result()?;
            job.stage = JobStage::Apply(0);
        }
        if let JobStage::Apply(first) = job.stage {
            for at in first..job.ops.len() {
                self.apply_op(job, at);
                if steps.are_enough(self) {
                    job.stage = JobStage::Apply(at + 1);
                    return Ok(false);
                }
            }
            self.registry.machine.end_group();
            for node in job.plan.nodes() {
                self.registry.refuse_circles_through(node);
            }
            job.stage = JobStage::Settle;
        }
        Ok(!self.carry_out(Scope::Calls))
    }

    fn apply_op(&mut self, job: &mut Job, at: usize) {
        let Job { ops, caller, plan, ending, .. } = job;
        let Planned { node, edges } = &mut plan.planned[at];
        let (node, edges) = (*node, mem::take(edges));
        self.registry.machine.hurry(node);
        self.apply(node, &edges, &mut ops[at].action, caller.origin.as_ref());
        let view = self.registry.machine.view(node);
        let has_to_go = view.is_marked || view.phase == Phase::Lingering;
        if has_to_go && !matches!(ops[at].action, Action::Unpark) {
            ending.push((node, view.generation));
        }
    }

    fn apply(
        &mut self,
        node: NodeId,
        edges: &[Edge],
        action: &mut Action,
        origin: Option<&Arc<Origin>>,
    ) {
        let is_installed = self.registry.machine.view(node).is_installed;
        match action {
            Action::Install { manifold, .. } => self.install(node, edges, manifold.take(), origin),
            // A worker may have uninstalled itself since the group was checked.
            _ if !is_installed => {}
            Action::Uninstall { .. } => {
                self.note(node, origin, || EventKind::Uninstalled);
                self.mark_obsolete(node);
                self.registry.remove_selections(node);
                self.registry.slots[node].forget_manifold();
                self.registry.machine.uninstall(node);
                let old = self.registry.slots[node].manifold.take();
                self.discard_manifold(old);
            }
            Action::Bounce => {
                self.note(node, origin, || EventKind::Bounced);
                self.registry.slots[node].set_asked_by(origin);
                self.registry.machine.bounce(node);
            }
            Action::Park => {
                self.note(node, origin, || EventKind::Parked);
                self.registry.slots[node].set_parked_by(origin);
                self.registry.machine.park(node);
            }
            Action::Unpark => {
                self.note(node, origin, || EventKind::Unparked);
                self.registry.slots[node].set_parked_by(None);
                self.registry.slots[node].set_asked_by(origin);
                self.registry.machine.unpark(node);
            }
        }
    }

    /// Puts a manifold in the place of the one before, if there is one.
    fn install(
        &mut self,
        node: NodeId,
        edges: &[Edge],
        manifold: Option<Manifold>,
        origin: Option<&Arc<Origin>>,
    ) {
        let is_installed = self.registry.machine.view(node).is_installed;
        self.mark_obsolete(node);
        let settings = manifold.as_ref().and_then(|manifold| manifold.settings.as_ref());
        self.registry.has_parts |= settings.is_some_and(|settings| settings.part_of.is_some());
        // Without one of its own it has the engine's, and takes 400 bytes less.
        let engine = &self.shared.environment.policy;
        let policy = settings.map(|settings| settings.policy(engine));
        let policy = policy.filter(|own| *own != **engine).map(Arc::new);
        self.registry.remove_selections(node);
        // The names of its inputs may be forgotten from here on.
        self.registry.keep_first_start(node);
        let slot = &mut self.registry.slots[node];
        slot.last_start.cause = Cause::Call;
        // Whoever asked for the next start asked for one of the manifold before.
        slot.set_asked_by(None);
        if !is_installed {
            slot.installed = NonZeroU64::new(self.pace.now);
            slot.forget_starts();
        }
        slot.is_carrier = manifold.as_ref().is_some_and(Manifold::is_carrier);
        slot.is_source = manifold.as_ref().is_some_and(Manifold::is_source);
        let old = mem::replace(&mut slot.manifold, manifold);
        slot.carry_present(old.as_ref());
        self.discard_manifold(old);
        self.registry.machine.install(node, edges, policy);
        self.registry.add_selections(node);
        let kind = if is_installed { EventKind::Replaced } else { EventKind::Installed };
        self.note(node, origin, || kind);
    }

    /// Marks a live worker as one of a manifold that is no longer installed, and forgets the last
    /// error of the name.
    pub(super) fn mark_obsolete(&mut self, node: NodeId) {
        let slot = &mut self.registry.slots[node];
        if let Some(worker) = &mut slot.worker {
            worker.is_obsolete = true;
        }
        slot.forget_error();
    }
}
