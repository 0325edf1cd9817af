//! How a change spreads, and which workers it stops and starts.

use std::time::Duration;

use super::node::{Age, Cause, Link, Need, NodeId, Phase, Rest, Status, StopStage};
use super::{Command, Machine, Scope, Step};

impl Machine {
    /// Queues a node whose status may have changed.
    pub(super) fn touch(&mut self, id: NodeId) {
        if self.show_nobody(id) {
            self.act_on(id);
        }
    }

    /// Queues a node that has come up. There is nothing to do if nothing uses it and it is not
    /// marked.
    pub(super) fn settle_in(&mut self, id: NodeId) {
        if self.graph[id].is_marked {
            self.touch(id);
        } else if self.show_nobody(id) {
            self.count_busy(id);
        }
    }

    /// Shows a node's status at once if nothing uses it and it is not queued; otherwise queues it.
    /// Returns whether the status was shown.
    fn show_nobody(&mut self, id: NodeId) -> bool {
        let node = &mut self.graph[id];
        if !node.in_spread && node.users.is_empty() {
            node.shown = node.status();
            return true;
        }
        if !node.in_spread {
            node.in_spread = true;
            self.spread.push_back(id);
        }
        false
    }

    /// Queues a node that may have to be stopped, started or forgotten.
    pub(super) fn act_on(&mut self, id: NodeId) {
        let node = &mut self.graph[id];
        let (is_in, pending) = if node.is_urgent {
            (&mut node.in_urgent, &mut self.urgent)
        } else {
            (&mut node.in_acts, &mut self.pending)
        };
        if !std::mem::replace(is_in, true) {
            pending.push(id);
        }
    }

    /// Makes a node urgent. Its users become urgent when its mark reaches them. Holders that no
    /// mark reaches any more become urgent when the machine looks at the node.
    pub(super) fn set_urgent(&mut self, id: NodeId) {
        let node = &mut self.graph[id];
        if !std::mem::replace(&mut node.is_urgent, true) {
            node.must_hurry = node.is_marked || !node.users(Age::Old).is_empty();
        }
    }

    /// Makes the workers urgent that hold this node's worker: it is told to stop after they are
    /// gone.
    fn hurry_holders(&mut self, id: NodeId) {
        for age in [Age::Current, Age::Old] {
            for index in 0..self.graph[id].users(age).len() {
                let node = &self.graph[id];
                let user = node.users(age)[index];
                let link = self.graph[user.node].inputs(age)[user.input as usize];
                if link.edge.need.bounces() && link.held == node.generation {
                    self.hurry(user.node);
                }
            }
        }
    }

    /// Marks a worker to stop. A worker that is marked already stays as it is: waves merge.
    pub(super) fn mark(&mut self, id: NodeId, is_root: bool, cause: Cause) {
        let node = &mut self.graph[id];
        if node.is_active() && !node.is_marked {
            node.is_marked = true;
            node.is_root = is_root;
            // After a kill, a worker waits for its followers too, like those that the sweep marks.
            node.is_swept = self.is_killed && !self.is_sweep_due;
            node.cause = (if node.is_swept { Cause::Kill } else { cause }, self.moment);
            self.touch(id);
        }
    }

    /// Ends the rest of a node whose worker has ended, but not a bounce delay or a park by hand.
    pub(super) fn end_soft_rest(&mut self, id: NodeId, cause: Cause) {
        let node = &mut self.graph[id];
        if !node.is_active() && node.rest.is_soft() {
            node.rest = Rest::Ready;
            node.cause = (cause, self.moment);
            // The timer of a lingering worker is its grace, which goes on.
            if node.phase == Phase::Idle {
                self.disarm(id);
            }
            self.touch(id);
        }
    }

    /// Counts how many of a node's inputs are not up, are down, or are coming, by the status that each
    /// shows.
    pub(super) fn recount(&mut self, id: NodeId) {
        let (mut unmet, mut blocked, mut awaited) = (0, 0, 0);
        for link in &self.graph[id].inputs {
            let shown = self.graph[link.edge.target].shown;
            if link.edge.need.gates() {
                unmet += u32::from(shown != Status::Up);
                blocked += u32::from(shown == Status::Down);
            } else if link.edge.need == Need::Optional {
                awaited += u32::from(shown == Status::Coming);
            }
        }
        let node = &mut self.graph[id];
        (node.unmet, node.blocked, node.awaited) = (unmet, blocked, awaited);
    }

    /// Shows a node's status to its users.
    pub(super) fn show(&mut self, id: NodeId) {
        self.act_on(id);
        let node = &mut self.graph[id];
        let (old, new) = (node.shown, node.status());
        node.shown = new;
        if old == new {
            return;
        }
        let is_urgent = node.is_urgent && old == Status::Up;
        // What stops a user of this node is what stops the node, if another node does.
        let stops = match node.cause.0 {
            cause @ (Cause::Input(_) | Cause::Kill) if node.is_marked => cause,
            _ => Cause::Input(id),
        };
        for index in 0..self.graph[id].users.len() {
            let user = self.graph[id].users[index];
            let need = self.graph[user.node].inputs[user.input as usize].edge.need;
            if need.gates() || need.bounces() {
                // A call that waits for the end of this worker also waits for its users.
                if is_urgent && need.bounces() {
                    self.set_urgent(user.node);
                }
                self.count(user.node, need, old, new);
                let lets_start =
                    if need.gates() { new == Status::Up } else { old == Status::Coming };
                if lets_start && !self.graph[user.node].is_active() {
                    self.blame(user.node, Cause::Input(id));
                }
                self.touch(user.node);
                if need.bounces() && (old == Status::Up || new == Status::Up) {
                    let cause = if new == Status::Up { Cause::Input(id) } else { stops };
                    self.input_changed(user.node, new == Status::Up, cause);
                }
            }
        }
    }

    fn count(&mut self, user: NodeId, need: Need, old: Status, new: Status) {
        fn turn(counter: &mut u32, was: bool, is: bool) {
            match (was, is) {
                (false, true) => *counter += 1,
                (true, false) => *counter -= 1,
                _ => {}
            }
        }
        let node = &mut self.graph[user];
        if need.gates() {
            turn(&mut node.unmet, old != Status::Up, new != Status::Up);
            turn(&mut node.blocked, old == Status::Down, new == Status::Down);
        } else {
            turn(&mut node.awaited, old == Status::Coming, new == Status::Coming);
        }
    }

    /// Handles an input of `user` that has come up or is no longer up. Only an optional input can
    /// come up while the worker is live and not marked. That is a cause of its own, so the worker
    /// is a root.
    fn input_changed(&mut self, user: NodeId, has_come: bool, cause: Cause) {
        self.mark(user, has_come, cause);
        self.end_soft_rest(user, cause);
    }

    /// Takes a random urgent node, or else a random pending one if the scope is `All`.
    pub(super) fn next_pending(&mut self, scope: Scope) -> Option<NodeId> {
        if let Some(id) = self.urgent.next(&mut self.random) {
            self.graph[id].in_urgent = false;
            return Some(id);
        }
        if scope < Scope::All {
            return None;
        }
        let id = self.pending.next(&mut self.random)?;
        self.graph[id].in_acts = false;
        Some(id)
    }

    /// Stops, starts or forgets a node, if it can be done now.
    pub(super) fn act(&mut self, id: NodeId) {
        let node = &mut self.graph[id];
        // A call waits at most for the end of the present worker.
        node.is_urgent &= node.is_marked || node.phase == Phase::Lingering;
        if std::mem::take(&mut node.must_hurry) && node.is_urgent {
            self.hurry_holders(id);
        }
        let node = &self.graph[id];
        if node.is_live() {
            self.tell_if_free(id);
        } else if node.can_start() {
            self.start(id);
        } else if node.is_forgettable() {
            self.commands.push_back(Command::Freed(id));
        }
        self.count_busy(id);
    }

    fn count_busy(&mut self, id: NodeId) {
        let node = &mut self.graph[id];
        let is_busy = node.must_move();
        match (node.is_busy, is_busy) {
            (false, true) => self.busy += 1,
            (true, false) => self.busy -= 1,
            _ => {}
        }
        node.is_busy = is_busy;
    }

    fn start(&mut self, id: NodeId) {
        for index in 0..self.graph[id].inputs.len() {
            let edge = self.graph[id].inputs[index].edge;
            let target = &mut self.graph[edge.target];
            let held = if !edge.need.bounces() {
                target.followers += 1;
                1
            } else if target.shown == Status::Up {
                target.holders += 1;
                target.generation
            } else {
                0
            };
            self.graph[id].inputs[index].held = held;
        }
        let node = &mut self.graph[id];
        node.generation = node.generation.wrapping_add(1).max(1);
        node.phase = Phase::Starting;
        node.is_outdated = false;
        let generation = node.generation;
        self.live += 1;
        self.commands.push_back(Command::Start(id, generation));
        let timeout = self.policy_of(id).start_timeout;
        self.arm(id, timeout);
    }

    /// Tells a marked worker to stop once no live worker uses it.
    fn tell_if_free(&mut self, id: NodeId) {
        let node = &self.graph[id];
        let is_followed =
            || node.followers > 0 || node.sets().iter().any(|set| self.graph[*set].followers > 0);
        let is_used = node.holders > 0 || (node.is_swept && is_followed());
        if !node.is_marked || node.stage > StopStage::Free || is_used {
            return;
        }
        let (generation, grace) = (node.generation, self.live_policy_of(id).grace);
        self.graph[id].stage = StopStage::Told;
        self.commands.push_back(Command::Stop(id, generation));
        self.arm(id, grace);
    }

    /// Releases a live worker's inputs: it no longer counts as their user.
    pub(super) fn release(&mut self, id: NodeId) {
        self.release_links(id, Age::Current);
        self.release_links(id, Age::Old);
        self.graph.drop_old(id);
    }

    fn release_links(&mut self, id: NodeId, age: Age) {
        for index in 0..self.graph[id].inputs(age).len() {
            let Link { edge, held, .. } = self.graph[id].inputs(age)[index];
            if held == 0 {
                continue;
            }
            let target = &mut self.graph[edge.target];
            if !edge.need.bounces() {
                target.followers -= 1;
                if edge.need == Need::Set && self.is_killed && target.followers == 0 {
                    let members: Vec<_> = self.graph[edge.target].members().collect();
                    members.into_iter().for_each(|member| self.act_on(member));
                }
            } else if target.is_active() && target.generation == held {
                target.holders -= 1;
            }
            self.act_on(edge.target);
        }
    }

    pub(super) fn arm(&mut self, id: NodeId, after: Duration) {
        self.disarm(id);
        let node = &mut self.graph[id];
        node.is_armed = true;
        self.armed += 1;
        self.commands.push_back(Command::Arm(id, node.token, after));
    }

    pub(super) fn disarm(&mut self, id: NodeId) {
        let node = &mut self.graph[id];
        if std::mem::take(&mut node.is_armed) {
            node.token = node.token.wrapping_add(1);
            self.armed -= 1;
        }
    }

    /// Marks the worker at one index of the graph after a kill.
    ///
    /// A worker that the kill marks first waits for its followers, too. A worker that was stopping
    /// before does not, as in any bounce: a replaced worker may follow a node that now follows its
    /// successor, and both would wait for each other.
    pub(super) fn sweep_over(&mut self, at: usize) {
        self.sweep = Some(at + 1).filter(|next| *next < self.graph.bound());
        if at < self.graph.bound() {
            let id = NodeId::from_index(at);
            let node = &mut self.graph[id];
            if node.is_active() && !node.is_marked {
                node.is_marked = true;
                node.is_root = false;
                node.is_swept = true;
                node.cause = (Cause::Kill, self.moment);
                self.show_nobody(id);
            }
            // A worker without live users can be told at once, because nothing starts after a kill.
            self.act_killed(id);
        }
    }

    /// Tells a worker to stop, if it can be told now.
    fn act_killed(&mut self, id: NodeId) {
        if self.graph[id].is_live() {
            self.tell_if_free(id);
        }
        self.count_busy(id);
    }

    /// Takes a step after a kill. Nothing starts, and each live worker is told to stop when its
    /// users are gone.
    pub(super) fn step_killed(&mut self) -> Step {
        if let Some(id) = self.next_pending(Scope::All) {
            self.act_killed(id);
        } else if self.live == 0 && !self.is_finished {
            self.is_finished = true;
            return Step::Command(Command::Finished);
        } else {
            return Step::Idle;
        }
        Step::Worked
    }
}
