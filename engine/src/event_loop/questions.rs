//! What is looked up without a change: chains to a cause, previews, and what begins a walk.

use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroU64;
use std::sync::Arc;
use std::time::Duration;

use super::check::{Plan, is_offered};
use super::slot::LastError;
use super::waiting::answer;
use super::walk::{Found, state_of};
use super::{Chain, EventLoop, Followed, Question};
use crate::change::{Action, ChangeError, Op, Ops, Preview};
use crate::event::Origin;
use crate::machine::{Edge, NodeId, Phase, Status};
use crate::name::Text;
use crate::nested::HandedBy;
use crate::report::{WhyStep, WorkerState};
use crate::shared::Pinned;
use crate::value::Kind;

impl EventLoop {
    pub(super) fn answer(&mut self, question: Question) {
        match question {
            Question::Preview(mut ops, reply) => {
                let is_killed = self.machine.is_killed();
                let preview =
                    if is_killed { Err(ChangeError::Stopped) } else { self.preview(&mut ops) };
                self.reaper.take_ops(ops);
                answer(reply, preview);
            }
            Question::Follow(name, kind, reply) => answer(reply, self.follow(&name, kind)),
            // Dropping the reply says that the engine is stopping.
            Question::Settled(_) if self.machine.is_killed() => {}
            Question::Settled(reply) => self.waiting.add_for_rest(reply),
            Question::Turn(reply) => answer(reply, ()),
            Question::Live(node, generation, reply) => {
                let path = self.worker(node, generation).is_some().then(|| self.path(node));
                answer(reply, path);
            }
            Question::Snapshot(reply) => self.begin_walk(Found::Report(self.begin_report(), reply)),
            Question::Why(name, reply) => answer(reply, self.why(&name)),
            Question::Graph(reply) => self.begin_walk(Found::Graph(self.begin_graph(), reply)),
        }
    }

    fn follow(&mut self, name: &Text, kind: &'static Kind) -> Result<Followed, ChangeError> {
        let node = self.intern(name);
        if let Some(manifold) = &self.slots[node.index()].manifold {
            check_offered(name, kind, manifold.blueprint.offers())?;
        }
        self.machine.pin(node);
        let receiver = self.slots[node.index()].follow(kind, &mut self.reaper);
        // Dropped with the answer, if nobody waits for it any more.
        let pinned = Pinned { shared: Arc::clone(&self.shared), node };
        Ok(Followed { receiver, pinned })
    }

    fn preview(&mut self, ops: &mut Ops) -> Result<Preview, ChangeError> {
        self.complete(ops);
        self.machine.begin_group();
        let plan = self.check_all(ops);
        self.machine.end_group();
        let plan = plan?;
        let mut preview = Preview::default();
        let mut gone = BTreeSet::new();
        let mut roots = Vec::new();
        for (op, node) in ops.iter().zip(plan.nodes()) {
            let path = self.path(node);
            match op.action {
                Action::Install { .. } => preview.installed.push(path),
                Action::Uninstall { .. } => preview.uninstalled.push(path),
                Action::Bounce | Action::Park | Action::Unpark => {}
            }
            if matches!(op.action, Action::Uninstall { .. } | Action::Park) {
                gone.insert(node);
            }
            if !matches!(op.action, Action::Unpark) {
                roots.push(node);
            }
            if !gone.contains(&node) {
                roots.extend(self.users_without(node));
            }
        }
        let stopping = self.machine.bounced_with(&roots);
        let puts = ops.iter().zip(&plan.planned);
        let rewired = puts.filter(|(op, _)| matches!(op.action, Action::Install { .. }));
        let rewired = rewired.map(|(_, planned)| (planned.node, &*planned.edges)).collect();
        self.add_bereft(&mut gone, &stopping, plan.nodes().collect(), &rewired);
        for node in stopping {
            let path = self.path(node);
            let list =
                if gone.contains(&node) { &mut preview.stopped } else { &mut preview.bounced };
            list.push(path);
        }
        for paths in [
            &mut preview.installed,
            &mut preview.uninstalled,
            &mut preview.bounced,
            &mut preview.stopped,
        ] {
            paths.sort_unstable();
        }
        Ok(preview)
    }

    /// Returns the users that run without an idle node: they are bounced when it comes up.
    fn users_without(&self, node: NodeId) -> Vec<NodeId> {
        if self.machine.view(node).phase != Phase::Idle {
            return Vec::new();
        }
        let users = self.machine.users(node);
        let bounces = |(user, index): &(NodeId, usize)| {
            self.machine.input(*user, *index).is_some_and(|(edge, _)| edge.need.bounces())
        };
        users.filter(bounces).map(|(user, _)| user).collect()
    }

    /// Adds the workers that cannot start again without those that are gone, on the graph as it
    /// would be: with these inputs of the nodes that are installed or replaced.
    fn add_bereft(
        &self,
        gone: &mut BTreeSet<NodeId>,
        stopping: &[NodeId],
        changed: BTreeSet<NodeId>,
        rewired: &BTreeMap<NodeId, &[Edge]>,
    ) {
        let mut users: BTreeMap<NodeId, Vec<NodeId>> = BTreeMap::new();
        for (user, edges) in rewired {
            for edge in edges.iter().filter(|edge| edge.need.gates()) {
                users.entry(edge.target).or_default().push(*user);
                let is_down = self.machine.view(edge.target).status == Status::Down;
                if is_down && !changed.contains(&edge.target) {
                    gone.insert(*user);
                }
            }
        }
        let stopping: BTreeSet<_> = stopping.iter().copied().collect();
        let mut stack: Vec<_> = gone.iter().copied().collect();
        while let Some(node) = stack.pop() {
            let kept = self.machine.users(node).filter(|(user, index)| {
                let edge = self.machine.input(*user, *index);
                let needs = edge.is_some_and(|(edge, _)| edge.need.gates());
                needs && stopping.contains(user) && !rewired.contains_key(user)
            });
            let kept = kept.map(|(user, _)| user);
            for user in kept.chain(users.get(&node).into_iter().flatten().copied()) {
                if gone.insert(user) {
                    stack.push(user);
                }
            }
        }
    }

    fn why(&self, name: &str) -> Option<Chain> {
        let mut node = self.names.find(&self.slots, name)?;
        let mut steps = Vec::new();
        loop {
            steps.push(self.why_step(node));
            match self.next_cause(node) {
                Some(cause) => node = cause,
                None => return Some(Chain { steps, handed_by: self.missed_from(node) }),
            }
        }
    }

    /// Returns who would hand over what a worker at a border misses.
    fn missed_from(&self, node: NodeId) -> Option<HandedBy> {
        let is_missing = state_of(&self.machine.view(node)) == WorkerState::Missing;
        let manifold = self.slots[node.index()].manifold.as_ref().filter(|_| is_missing)?;
        manifold.settings.as_ref()?.handed_by.clone()
    }

    fn why_step(&self, node: NodeId) -> WhyStep {
        let slot = &self.slots[node.index()];
        let view = self.machine.view(node);
        let state = state_of(&view);
        let left = |until: NonZeroU64| Duration::from_nanos(until.get().saturating_sub(self.now));
        let degraded = slot.degraded().map(str::to_owned);
        let up = slot.started.map(NonZeroU64::get);
        let failures = self.failures_of(node, view, slot);
        let is_reason = |error: &&LastError| state.is_due_to_error(failures, error.at, up);
        let error = slot.last_error().filter(is_reason);
        // What was there before has no wrong name.
        let is_unknown = state == WorkerState::Absent && slot.starts == 0;
        WhyStep {
            path: self.path(node),
            state,
            failures,
            error: degraded.or_else(|| error.map(|error| error.text.clone())),
            parked_by: slot.parked_by().map(|origin| Origin::clone(origin)),
            nearest: is_unknown.then(|| self.nearest(slot.name().as_str())).flatten(),
            next_try_in: self.waits_until(slot, state).map(|until| left(until).as_secs_f64()),
        }
    }

    /// Returns what a worker waits for: an input that is not up, or a user that has not stopped.
    /// The graph has no cycle, and a chain goes only one way, so it ends.
    fn next_cause(&self, node: NodeId) -> Option<NodeId> {
        let is_up = |node: NodeId| self.machine.view(node).status == Status::Up;
        match state_of(&self.machine.view(node)) {
            WorkerState::Waiting => {
                let inputs = self.machine.inputs(node);
                let mut unmet = inputs.filter(|(edge, _)| {
                    let is_coming = self.machine.view(edge.target).status == Status::Coming;
                    !is_up(edge.target) && (edge.need.gates() || is_coming)
                });
                unmet.next().map(|(edge, _)| edge.target)
            }
            WorkerState::Closing => {
                let mut users = self.machine.users(node);
                users
                    .find(|(user, input)| {
                        let used = self.machine.input(*user, *input);
                        used.is_some_and(|(edge, is_held)| is_held && edge.need.bounces())
                    })
                    .map(|(user, _)| user)
            }
            _ => None,
        }
    }

    fn check_all(&mut self, ops: &mut [Op]) -> Result<Plan, ChangeError> {
        let mut plan = Plan::default();
        for at in 0..ops.len() {
            self.resolve(&mut plan, ops, at)?;
        }
        for index in 0..plan.linked.len() {
            self.check(&plan, ops, plan.linked[index])?;
        }
        self.check_cycles(&plan)?;
        Ok(plan)
    }
}

/// Compares what is asked for from outside with what is on offer.
fn check_offered(
    name: &Text,
    kind: &'static Kind,
    offers: &[&'static Kind],
) -> Result<(), ChangeError> {
    if is_offered(kind, offers) {
        return Ok(());
    }
    Err(ChangeError::OutputMismatch {
        name: name.as_str().to_owned(),
        asked: kind.name(),
        offered: offers.iter().map(|kind| kind.name()).collect(),
    })
}
