//! What is looked up without a change: chains to a cause, previews, and what begins a walk.

use std::num::NonZeroU64;
use std::sync::Arc;
use std::time::Duration;

use super::EventLoop;
use super::call::Chain;
use super::call::Followed;
use super::call::Pinned;
use super::call::Question;
use super::check::is_offered;
use super::plan::Faults;
use super::plan::Plan;
use super::plan::Planned;
use super::reply::answer;
use super::slot::LastError;
use super::walk::state_of;
use super::walks::Found;
use crate::change::{Action, ChangeError, Op, Ops, Preview};
use crate::machine::{CycleSearch, NodeId, Status};
use crate::seen::event::Origin;
use crate::seen::report::WorkerState;
use crate::seen::why::WhyStep;
use crate::vocabulary::name::Text;
use crate::vocabulary::settings::HandedBy;
use crate::vocabulary::value::Kind;

impl EventLoop {
    pub(super) fn answer(&mut self, question: Question) {
        match question {
            Question::Preview(mut ops, reply) => {
                let is_killed = self.machine.is_killed();
                let preview =
                    if is_killed { Err(ChangeError::Stopped) } else { self.preview(&mut ops) };
                self.discard_ops(ops);
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
        let receiver = self.slots[node.index()].follow(kind, &self.shared);
        // Dropped with the answer, if nobody waits for it any more.
        let pinned = Pinned { host: Arc::clone(&self.shared) as _, node };
        Ok(Followed { receiver, pinned })
    }

    fn preview(&mut self, ops: &mut Ops) -> Result<Preview, ChangeError> {
        self.complete(ops);
        self.machine.begin_group();
        let plan = self.check_all(ops);
        self.machine.end_group();
        let plan = plan?;
        let trial = self.machine.try_out(|machine| {
            machine.begin_group();
            for (op, Planned { node, edges }) in ops.iter().zip(&plan.planned) {
                match op.action {
                    Action::Install { .. } => machine.install(*node, edges, None),
                    Action::Uninstall { .. } => machine.uninstall(*node),
                    Action::Bounce => machine.bounce(*node),
                    Action::Park => machine.park(*node),
                    Action::Unpark => machine.unpark(*node),
                }
            }
            machine.end_group();
        });
        let paths = |nodes: &mut dyn Iterator<Item = NodeId>| {
            let mut paths: Vec<_> = nodes.map(|node| self.path(node)).collect();
            paths.sort_unstable();
            paths
        };
        let about = |is_it: fn(&Action) -> bool| {
            let with_node = ops.iter().zip(plan.nodes());
            paths(&mut with_node.filter(|(op, _)| is_it(&op.action)).map(|(_, node)| node))
        };
        Ok(Preview {
            bounced: paths(&mut trial.bounced.into_iter()),
            stopped: paths(&mut trial.stopped.into_iter()),
            installed: about(|action| matches!(action, Action::Install { .. })),
            uninstalled: about(|action| matches!(action, Action::Uninstall { .. })),
        })
    }

    fn why(&self, name: &str) -> Option<Chain> {
        let mut node = self.find(name)?;
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

    fn check_all(&mut self, ops: &[Op]) -> Result<Plan, ChangeError> {
        let (mut plan, mut faults) = (Plan::default(), Faults::default());
        for at in 0..ops.len() {
            self.resolve(&mut plan, ops, at, &mut faults);
        }
        for index in 0..plan.linked.len() {
            self.check(&plan, ops, plan.linked[index], &mut faults);
        }
        let mut search = CycleSearch::new(plan.linked.len());
        while self.search_cycle(&plan, &mut search, &mut faults) {}
        faults.into_result().map(|()| plan)
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
