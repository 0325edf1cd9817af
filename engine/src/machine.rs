//! The engine's state machine: events in, commands out.
//!
//! It knows no clock, task, channel or type. The driver tells it what happened, then takes steps at
//! least until the change has spread, and carries out each command before it tells the next event.
//! All randomness comes from one seed.
//!
//! There are no wave objects. Each node shows its users whether it is up, coming or down; a change
//! of that spreads along the edges first, and marks the live workers it reaches. Only when nothing
//! is left to spread does the machine look at the touched nodes and stop or start them.
//!
//! Invariants:
//! 1. The counters of a node agree with what its inputs *show*; a node whose own status differs
//!    from what it shows is in the queue `spread`.
//! 2. A node that may have to be stopped, started or removed is in `pending`, or in `urgent` if a call
//!    waits for it.
//! 3. Nothing is started or told to stop while `spread` holds a node or a group is open.
//! 4. A worker is told to stop only when it is marked and no live worker holds its output.
//! 5. A node has at most one timer: its delay or backoff while idle, its deadline to start, its
//!    grace, or its second grace.

#[cfg(feature = "bare-machine")]
pub(crate) mod bare;
mod cycles;
mod ends;
mod graph;
mod node;
mod pending;
mod trial;
mod wave;

#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use rand::SeedableRng;
use rand::rngs::SmallRng;

pub(crate) use cycles::{CycleSearch, Found};
pub(crate) use ends::{End, Left};
use graph::DependencyGraph;
pub(crate) use node::{
    Edge, Generation, Need, NodeId, Phase, Port, Rest, Status, StopStage, Token,
};
use pending::RandomQueue;
#[cfg(test)]
pub(crate) use trial::Trial;

pub(crate) use crate::vocabulary::exit::EndKind;
use crate::vocabulary::policy::Policy;

/// What the driver is to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Command {
    /// Start this generation's worker with its inputs' current values.
    Start(NodeId, Generation),
    /// Tell the worker to stop, and withdraw its outputs.
    Stop(NodeId, Generation),
    /// Tell the worker that an input has ended by itself.
    Lose(NodeId, Generation),
    /// Drop the worker's future.
    Abort(NodeId, Generation),
    /// Name the worker: it has outlived both graces.
    Stuck(NodeId, Generation),
    /// Fire this timer after the delay.
    Arm(NodeId, Token, Duration),
    /// The manifold is out, its worker gone.
    Removed(NodeId),
    /// Forget the name: nothing installs or uses it.
    Freed(NodeId),
    /// Every worker has ended or is stuck after a kill.
    Finished,
}

/// How far the machine goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Scope {
    /// Until a change has spread: who is to stop is marked.
    Marks,
    /// Until the nodes that calls wait for were looked at, too.
    Calls,
    /// Until nothing is left to do.
    All,
}

/// What one step of the machine did.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Step {
    Command(Command),
    /// A bounded piece of work; there may be more.
    Worked,
    /// There is nothing to do until the next event.
    Idle,
}

/// What a node looks like from outside.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct View {
    pub(crate) phase: Phase,
    pub(crate) rest: Rest,
    pub(crate) stage: StopStage,
    pub(crate) status: Status,
    pub(crate) generation: Generation,
    pub(crate) failures: u32,
    pub(crate) is_installed: bool,
    pub(crate) is_marked: bool,
    pub(crate) is_obsolete: bool,
    pub(crate) is_parked: bool,
    pub(crate) is_overdue: bool,
}

#[derive(Debug, Clone)]
pub(crate) struct Machine {
    graph: DependencyGraph,
    policy: Arc<Policy>,
    random: SmallRng,
    commands: VecDeque<Command>,
    spread: VecDeque<NodeId>,
    pending: RandomQueue,
    /// The nodes to look at that calls wait for.
    urgent: RandomQueue,
    /// Open groups; while there is one nothing is started or stopped.
    groups: u32,
    /// Live workers that are not stuck.
    live: usize,
    /// Nodes that are not at rest.
    busy: usize,
    armed: usize,
    /// A kill waits for what was under way to spread, so that it is told from the rest.
    is_sweep_due: bool,
    /// Where the walk stands that marks all workers after a kill.
    sweep: Option<usize>,
    is_killed: bool,
    is_finished: bool,
}

impl Machine {
    pub(crate) fn new(policy: Arc<Policy>, seed: u64) -> Self {
        Self {
            graph: DependencyGraph::default(),
            policy,
            random: SmallRng::seed_from_u64(seed),
            commands: VecDeque::new(),
            spread: VecDeque::new(),
            pending: RandomQueue::default(),
            urgent: RandomQueue::default(),
            groups: 0,
            live: 0,
            busy: 0,
            armed: 0,
            is_sweep_due: false,
            sweep: None,
            is_killed: false,
            is_finished: false,
        }
    }

    /// Makes room for more names at once.
    pub(crate) fn reserve(&mut self, more: usize) {
        self.graph.reserve(more);
        self.pending.reserve(more);
    }

    /// Adds a name that nothing is installed at. It is freed once nothing installs, uses or pins it.
    pub(crate) fn add(&mut self) -> NodeId {
        let id = self.graph.add();
        self.act_on(id);
        id
    }

    /// Keeps a name though nothing may use it.
    pub(crate) fn pin(&mut self, id: NodeId) {
        self.graph[id].pins += 1;
    }

    /// Takes one pin back.
    pub(crate) fn unpin(&mut self, id: NodeId) {
        self.graph[id].pins -= 1;
        self.act_on(id);
    }

    /// Looks at a node before all others until what was asked of it is done: whatever else there is
    /// to do, its caller does not wait for that.
    pub(crate) fn hurry(&mut self, id: NodeId) {
        self.set_urgent(id);
        self.act_on(id);
    }

    /// Begins a group: until it ends nothing is started or stopped.
    pub(crate) fn begin_group(&mut self) {
        self.groups += 1;
    }

    pub(crate) fn end_group(&mut self) {
        self.groups -= 1;
    }

    /// Installs a manifold, or replaces the one that is installed there.
    ///
    /// The edges must lead to no cycle; see [`Self::find_cycle`].
    pub(crate) fn install(&mut self, id: NodeId, edges: &[Edge], policy: Option<Arc<Policy>>) {
        self.take_out(id);
        self.graph.link(id, edges);
        let node = &mut self.graph[id];
        node.is_installed = true;
        node.failures = 0;
        node.begin_policy(policy);
        self.recount(id);
        self.touch(id);
    }

    /// Takes a manifold out; its name stays as long as something uses it.
    pub(crate) fn uninstall(&mut self, id: NodeId) {
        self.take_out(id);
        let node = &mut self.graph[id];
        node.is_installed = false;
        node.is_parked = false;
        node.begin_policy(None);
        if !node.is_live() {
            self.commands.push_back(Command::Removed(id));
        }
        self.touch(id);
    }

    /// Ends what the present manifold of a node is to the graph. A live worker keeps its hold on
    /// the inputs it was started with until it ends.
    fn take_out(&mut self, id: NodeId) {
        if !self.graph[id].is_installed && !self.graph[id].is_live() {
            return;
        }
        let links = self.graph.unlink(id);
        for link in &links {
            self.act_on(link.edge.target);
        }
        let node = &mut self.graph[id];
        if node.is_live() {
            let is_user = !std::mem::replace(&mut node.is_obsolete, true);
            if is_user && node.stage < StopStage::Stuck {
                self.graph.keep_old(id, &links);
            }
            self.mark(id, true);
        }
        if !self.graph[id].is_active() {
            self.graph[id].rest = Rest::Ready;
        }
        if !self.graph[id].is_live() {
            self.disarm(id);
        }
    }

    /// Stops the worker and starts it again; ends every wait of an idle one but a bounce delay.
    pub(crate) fn bounce(&mut self, id: NodeId) {
        self.mark(id, true);
        self.end_soft_rest(id);
    }

    /// Stops the worker and keeps it stopped until it is unparked.
    pub(crate) fn park(&mut self, id: NodeId) {
        self.graph[id].is_parked = true;
        self.mark(id, true);
        self.touch(id);
    }

    pub(crate) fn unpark(&mut self, id: NodeId) {
        self.graph[id].is_parked = false;
        self.end_soft_rest(id);
        self.touch(id);
    }

    /// Stops everything, users before what they use, and starts nothing more.
    pub(crate) fn kill(&mut self) {
        if !self.is_killed {
            self.is_killed = true;
            self.is_sweep_due = true;
        }
    }

    /// A worker has started and its outputs are there.
    pub(crate) fn started(&mut self, id: NodeId, generation: Generation) {
        let node = &mut self.graph[id];
        if node.generation != generation || node.phase != Phase::Starting || node.is_overdue {
            return;
        }
        node.phase = Phase::Running;
        let is_told = node.stage > StopStage::Free;
        let is_outdated = std::mem::take(&mut node.is_outdated);
        // The timer of a told worker is its grace, which goes on.
        if !is_told {
            self.disarm(id);
        }
        if is_outdated {
            self.mark(id, true);
        }
        self.settle_in(id);
    }

    /// A running worker has published a new value of one output.
    pub(crate) fn changed(&mut self, id: NodeId, generation: Generation, port: Port) {
        let node = &self.graph[id];
        if node.generation != generation || node.phase != Phase::Running || self.is_killed {
            return;
        }
        for index in 0..node.users.len() {
            let user = self.graph[id].users[index];
            let target = &self.graph[user.node];
            let link = target.inputs[user.input as usize];
            if link.edge.port != port || !link.edge.need.bounces() {
                continue;
            }
            // A worker that was started without this one has no older value of it.
            if target.is_active() && link.held != generation {
                continue;
            }
            if self.graph[user.node].phase == Phase::Starting {
                self.graph[user.node].is_outdated = true;
            } else {
                self.mark(user.node, true);
                self.end_soft_rest(user.node);
            }
        }
    }

    /// Takes the next piece of work, if there is any within the scope.
    pub(crate) fn step(&mut self, scope: Scope) -> Step {
        if let Some(command) = self.commands.pop_front() {
            return self.hand_out(command);
        }
        if let Some(id) = self.spread.pop_front() {
            self.graph[id].in_spread = false;
            self.show(id);
        } else if std::mem::take(&mut self.is_sweep_due) {
            self.sweep = Some(0);
        } else if scope == Scope::Marks {
            return Step::Idle;
        } else if let Some(at) = self.sweep {
            self.sweep_over(at);
        } else if self.is_killed {
            return self.step_killed();
        } else if self.groups == 0
            && let Some(id) = self.next_pending(scope)
        {
            self.act(id);
        } else {
            return Step::Idle;
        }
        Step::Worked
    }

    fn hand_out(&mut self, command: Command) -> Step {
        if let Command::Freed(id) = command {
            // An event may have come since the command was queued, and want the name again.
            if !self.graph[id].is_forgettable() {
                return Step::Worked;
            }
            self.graph.free(id);
        }
        Step::Command(command)
    }

    /// Whether nothing will happen without a further cause, failures that wait aside.
    pub(crate) fn is_settled(&self) -> bool {
        self.busy == 0
            && self.commands.is_empty()
            && self.spread.is_empty()
            && self.pending.is_empty()
            && self.urgent.is_empty()
            && self.groups == 0
            && !self.is_sweep_due
            && self.sweep.is_none()
    }

    pub(crate) fn has_commands(&self) -> bool {
        !self.commands.is_empty()
    }

    pub(crate) fn is_killed(&self) -> bool {
        self.is_killed
    }

    /// How many timers are armed; the driver's queue may hold older ones besides.
    pub(crate) fn armed(&self) -> usize {
        self.armed
    }

    pub(crate) fn is_armed(&self, id: NodeId, token: Token) -> bool {
        self.graph[id].is_armed && self.graph[id].token == token
    }

    // Its callers look at a field or two; a call that fills in all took 5 % of a start.
    #[inline(always)]
    pub(crate) fn view(&self, id: NodeId) -> View {
        let node = &self.graph[id];
        View {
            phase: node.phase,
            rest: node.rest,
            stage: node.stage,
            status: node.status(),
            generation: node.generation,
            failures: node.failures,
            is_installed: node.is_installed,
            is_marked: node.is_marked,
            is_obsolete: node.is_obsolete,
            is_parked: node.is_parked,
            is_overdue: node.is_overdue,
        }
    }

    /// Returns a node's inputs, and whether its live worker was started with each.
    pub(crate) fn inputs(&self, id: NodeId) -> impl ExactSizeIterator<Item = (Edge, bool)> {
        let is_user = self.graph[id].stage < StopStage::Stuck;
        self.graph[id].inputs.iter().map(move |link| (link.edge, is_user && link.held != 0))
    }

    /// Returns one of a node's inputs, by its index, and whether its live worker was started with it.
    pub(crate) fn input(&self, id: NodeId, index: usize) -> Option<(Edge, bool)> {
        let is_user = self.graph[id].stage < StopStage::Stuck;
        self.graph[id].inputs.get(index).map(|link| (link.edge, is_user && link.held != 0))
    }

    /// Returns who uses a node, with the index of the input; a node may use another twice.
    pub(crate) fn users(&self, id: NodeId) -> impl Iterator<Item = (NodeId, usize)> {
        self.graph[id].users.iter().map(|user| (user.node, user.input as usize))
    }

    /// Returns how long a worker must have been up for its failures to be forgotten.
    pub(crate) fn reset_after(&self, id: NodeId) -> Duration {
        self.policy_of(id).backoff.reset_after
    }

    /// Returns how long a worker has that was told to stop.
    pub(crate) fn grace(&self, id: NodeId) -> Duration {
        self.policy_of(id).grace
    }

    fn policy_of(&self, id: NodeId) -> &Policy {
        self.graph[id].policy().unwrap_or(&self.policy)
    }
}
