//! Previews: the machine goes through a change, and then back to its state before.

use std::collections::BTreeSet;
use std::mem;
use std::sync::Arc;
use std::time::Duration;

use super::ends::{End, Left};
use super::graph::DependencyGraph;
use super::node::{Age, NodeId, Phase, Rest, Status, StopStage, Token};
use super::{Command, EndKind, Machine, Scope, Step};

/// The workers that a change would stop.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Trial {
    /// Workers that would start again.
    pub(crate) bounced: BTreeSet<NodeId>,
    /// Workers that would not start again.
    pub(crate) stopped: BTreeSet<NodeId>,
}

/// What happened while the machine went through a change, or through what happens without one.
#[derive(Default)]
struct Course {
    trial: Trial,
    /// Nodes that were started although the trial had not stopped them before.
    fresh: BTreeSet<NodeId>,
    /// Nodes that were stopped before anything that was under way continued.
    at_once: BTreeSet<NodeId>,
    /// Nodes where [`Machine::nudge`] continued something that was under way.
    nudged: BTreeSet<NodeId>,
}

impl Machine {
    /// Returns what a change would lead to if all went well from now on: each start succeeds at
    /// once, each worker ends when it is told to stop, and no worker ends by itself.
    ///
    /// The machine is unchanged afterwards. The cost is what the change would touch. If the machine
    /// is not settled, it is twice that, and what is under way.
    pub(crate) fn try_out(&mut self, change: impl FnOnce(&mut Self)) -> Trial {
        let is_settled = self.is_settled();
        let with = self.go_through(&BTreeSet::new(), change);
        let mut trial = with.trial;
        if is_settled {
            return trial;
        }
        let without = self.go_through(&with.nudged, |_| {});
        let is_own = |id: &NodeId| with.at_once.contains(id) && !without.at_once.contains(id);
        let Trial { bounced, stopped } = without.trial;
        trial.bounced.retain(|id| is_own(id) || !bounced.contains(id) && !stopped.contains(id));
        trial.stopped.retain(|id| is_own(id) || !stopped.contains(id));
        trial
    }

    /// Goes through a change. Also continues what is under way near the change and at the nodes in
    /// `to_nudge`.
    fn go_through(
        &mut self,
        to_nudge: &BTreeSet<NodeId>,
        change: impl FnOnce(&mut Self),
    ) -> Course {
        let kept = self.without_graph();
        self.graph.begin_trial();
        // The graph already holds what an open group has done so far.
        self.groups = 0;
        change(self);
        let mut course = Course::default();
        let mut delays: Vec<(NodeId, Token)> = Vec::new();
        loop {
            match self.step(Scope::All) {
                Step::Worked => {}
                Step::Command(command) => self.play_driver(command, &mut course, &mut delays),
                Step::Idle => match delays.pop() {
                    Some((id, token)) => self.fired(id, token),
                    None if self.nudge(to_nudge, &mut course) => {}
                    None => break,
                },
            }
        }
        self.graph.end_trial();
        let graph = mem::take(&mut self.graph);
        *self = Self { graph, ..kept };
        course
    }

    /// Returns a copy of everything but the graph.
    fn without_graph(&self) -> Self {
        Self {
            graph: DependencyGraph::default(),
            policy: Arc::clone(&self.policy),
            random: self.random.clone(),
            commands: self.commands.clone(),
            spread: self.spread.clone(),
            pending: self.pending.clone(),
            urgent: self.urgent.clone(),
            ..*self
        }
    }

    fn play_driver(
        &mut self,
        command: Command,
        course: &mut Course,
        delays: &mut Vec<(NodeId, Token)>,
    ) {
        match command {
            Command::Start(id, generation) => {
                if course.trial.stopped.remove(&id) {
                    course.trial.bounced.insert(id);
                } else {
                    course.fresh.insert(id);
                }
                self.started(id, generation);
            }
            Command::Stop(id, _) => {
                // A worker that the trial itself has started does not count as stopped.
                if !course.fresh.contains(&id) && !course.trial.bounced.contains(&id) {
                    course.trial.stopped.insert(id);
                }
                self.end_well(id);
            }
            Command::Arm(id, token, _) => {
                let node = &self.graph[id];
                if node.phase == Phase::Idle && node.rest == Rest::Delay {
                    delays.push((id, token));
                }
            }
            _ => {}
        }
    }

    fn end_well(&mut self, id: NodeId) {
        let zero = Duration::ZERO;
        let end = End { kind: EndKind::Stopped, ran: zero, at: zero, left: Left::Nothing };
        self.ended(id, self.graph[id].generation, end);
    }

    /// Continues what was under way before, near the change and at the nodes in `to_nudge`. Returns
    /// whether there was anything.
    fn nudge(&mut self, to_nudge: &BTreeSet<NodeId>, course: &mut Course) -> bool {
        if course.nudged.is_empty() {
            course.at_once = &course.trial.bounced | &course.trial.stopped;
        }
        let mut has_moved = false;
        for id in &self.near() | to_nudge {
            let node = &self.graph[id];
            let (generation, stage) = (node.generation, node.stage);
            match node.phase {
                _ if stage == StopStage::Stuck => continue,
                Phase::Starting if stage == StopStage::Free && !node.is_marked => {
                    self.started(id, generation);
                }
                Phase::Starting | Phase::Running if stage > StopStage::Free => self.end_well(id),
                Phase::Lingering => self.gone(id, generation, Duration::ZERO),
                Phase::Idle if node.rest == Rest::Delay && node.is_armed => {
                    self.fired(id, node.token);
                }
                _ => continue,
            }
            course.nudged.insert(id);
            has_moved = true;
        }
        has_moved
    }

    /// Returns the nodes that the trial has touched and the nodes that they wait for: inputs that
    /// are not up, and users of a worker that must stop.
    fn near(&self) -> BTreeSet<NodeId> {
        let mut near = BTreeSet::new();
        let mut stack = self.graph.touched();
        while let Some(id) = stack.pop() {
            if !near.insert(id) {
                continue;
            }
            let node = &self.graph[id];
            for age in [Age::Current, Age::Old] {
                let inputs = node.inputs(age).iter().map(|link| link.edge.target);
                stack.extend(inputs.filter(|input| self.graph[*input].status() != Status::Up));
                if node.is_marked {
                    stack.extend(node.users(age).iter().map(|user| user.node));
                }
            }
        }
        near
    }
}
