//! What a change would lead to: the machine goes through it, and back to where it was.

use std::collections::BTreeSet;
use std::mem;
use std::sync::Arc;
use std::time::Duration;

use super::graph::Graph;
use super::node::{Age, NodeId, Phase, Rest, Stage, Token};
use super::{Command, End, EndKind, Left, Machine, Scope, Step};

/// Which workers a change would stop.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Trial {
    /// Those that would start again.
    pub(crate) bounced: BTreeSet<NodeId>,
    /// Those that would not.
    pub(crate) stopped: BTreeSet<NodeId>,
}

impl Machine {
    /// Returns what a change would lead to if all went well from now on: each start succeeds at
    /// once, each worker ends when it is told to, and none by itself.
    ///
    /// Nothing is changed. It costs what the change would touch; twice that, and what is under way,
    /// while the machine is not at rest.
    pub(crate) fn try_out(&mut self, change: impl FnOnce(&mut Self)) -> Trial {
        let before = if self.is_settled() { Trial::default() } else { self.go_through(|_| {}) };
        let mut trial = self.go_through(change);
        let happens_anyway =
            |id: &NodeId| before.bounced.contains(id) || before.stopped.contains(id);
        trial.bounced.retain(|id| !happens_anyway(id));
        trial.stopped.retain(|id| !before.stopped.contains(id));
        trial
    }

    fn go_through(&mut self, change: impl FnOnce(&mut Self)) -> Trial {
        let kept = self.without_graph();
        self.graph.begin_trial();
        // What a group has done so far stands in the graph.
        self.groups = 0;
        change(self);
        let mut trial = Trial::default();
        let mut delays: Vec<(NodeId, Token)> = Vec::new();
        loop {
            match self.step(Scope::All) {
                Step::Worked => {}
                Step::Command(command) => self.play_driver(command, &mut trial, &mut delays),
                Step::Idle => match delays.pop() {
                    Some((id, token)) => self.fired(id, token),
                    None if self.nudge() => {}
                    None => break,
                },
            }
        }
        self.graph.end_trial();
        let graph = mem::take(&mut self.graph);
        *self = Self { graph, ..kept };
        trial
    }

    /// Returns a copy of all but the graph.
    fn without_graph(&self) -> Self {
        Self {
            graph: Graph::default(),
            policy: Arc::clone(&self.policy),
            random: self.random.clone(),
            commands: self.commands.clone(),
            spread: self.spread.clone(),
            acts: self.acts.clone(),
            urgent: self.urgent.clone(),
            ..*self
        }
    }

    fn play_driver(
        &mut self,
        command: Command,
        trial: &mut Trial,
        delays: &mut Vec<(NodeId, Token)>,
    ) {
        match command {
            Command::Start(id, generation) => {
                if trial.stopped.remove(&id) {
                    trial.bounced.insert(id);
                }
                self.started(id, generation);
            }
            Command::Stop(id, _) => {
                // One that was not there before is nobody's loss.
                if self.graph.was_active(id) && !trial.bounced.contains(&id) {
                    trial.stopped.insert(id);
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

    /// Lets go on what was under way before, as far as the change has to do with it; returns
    /// whether there was anything.
    fn nudge(&mut self) -> bool {
        let touched = self.graph.touched();
        let inputs = touched.iter().flat_map(|id| {
            let ages = [Age::Current, Age::Old];
            ages.into_iter()
                .flat_map(|age| self.graph[*id].inputs(age))
                .map(|link| link.edge.target)
        });
        let near: BTreeSet<_> = inputs.chain(touched.iter().copied()).collect();
        let mut has_moved = false;
        for id in near {
            let node = &self.graph[id];
            let (generation, stage) = (node.generation, node.stage);
            match node.phase {
                _ if stage == Stage::Stuck => continue,
                Phase::Starting if stage == Stage::Free && !node.is_marked => {
                    self.started(id, generation);
                }
                Phase::Starting | Phase::Running if stage > Stage::Free => self.end_well(id),
                Phase::Lingering => self.gone(id, generation, Duration::ZERO),
                Phase::Idle if node.rest == Rest::Delay && node.is_armed => {
                    self.fired(id, node.token);
                }
                _ => continue,
            }
            has_moved = true;
        }
        has_moved
    }
}
