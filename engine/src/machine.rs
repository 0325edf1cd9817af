//! The engine's state machine: events in, commands out.
//!
//! It knows no clocks, tasks, channels or types. The driver tells it each event and then takes
//! steps, at least until the change has spread. It carries out each command before it tells the
//! next event. All randomness comes from one seed.
//!
//! There are no wave objects. Each node shows its users whether it is up, coming or down. A change
//! of this status first spreads along the edges and marks the live workers that it reaches. The
//! machine stops or starts the touched nodes only when nothing is left to spread.
//!
//! Invariants:
//! 1. The counters of a node agree with what its inputs *show*. A node whose own status differs
//!    from what it shows is in the queue `spread`.
//! 2. A node that may have to be stopped, started or removed is in `spread` or `pending`, or in
//!    `urgent` if a call waits for it. After a kill, `sweep` visits every node.
//! 3. Until a kill, nothing is started or told to stop while `spread` holds a node or a group is
//!    open. After a kill nothing starts, so workers are told to stop without this wait.
//! 4. A worker is told to stop only when it is marked and no live worker holds its output. A stuck
//!    worker holds nothing.
//! 5. A node has at most one timer: its delay or backoff while idle, otherwise its start timeout,
//!    its grace or its second grace.

#[cfg(feature = "bare-machine")]
pub(crate) mod bare;
pub(crate) mod cycles;
pub(crate) mod ends;
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

use graph::DependencyGraph;
pub(crate) use node::{
    Cause, Edge, Generation, Moment, Need, NodeId, Phase, Port, Rest, Status, StopStage, Token,
};
use pending::RandomQueue;
#[cfg(test)]
pub(crate) use trial::Trial;

pub(crate) use crate::vocabulary::exit::EndKind;
use crate::vocabulary::policy::Policy;

/// What the driver must do.
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
    /// Report the worker as stuck: it is still there after both graces.
    Stuck(NodeId, Generation),
    /// Fire this timer after the delay.
    Arm(NodeId, Token, Duration),
    /// The manifold is uninstalled and its worker is gone.
    Removed(NodeId),
    /// Forget the name: no manifold is installed at it, and nothing uses or pins it.
    Freed(NodeId),
    /// After a kill, every worker is gone or stuck.
    Finished,
}

/// How far the steps go.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Scope {
    /// Until the change has spread and the workers that it stops are marked. The sweep after a kill
    /// is not included.
    Marks,
    /// Until the machine has also looked at the nodes that calls wait for. After a kill, like
    /// `All`.
    Calls,
    /// Until nothing is left to do.
    All,
}

/// What one step of the machine did.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Step {
    Command(Command),
    /// It did a bounded piece of work. There may be more.
    Worked,
    /// There is nothing to do within the scope until the next event.
    Idle,
}

/// The state of a node, as the driver sees it.
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
    /// The moment of the present event, as the driver says.
    moment: Moment,
    commands: VecDeque<Command>,
    spread: VecDeque<NodeId>,
    pending: RandomQueue,
    /// The nodes that calls wait for. The machine looks at them first.
    urgent: RandomQueue,
    /// The number of open groups. While a group is open, nothing is started, and only a kill stops
    /// workers.
    groups: u32,
    /// The number of live workers that are not stuck.
    live: usize,
    /// The number of nodes that are not at rest.
    busy: usize,
    armed: usize,
    /// A kill has come, and its sweep has not begun. The sweep begins when all earlier changes have
    /// spread, so that their marks differ from its own.
    is_sweep_due: bool,
    /// The next index of the sweep, which marks all workers after a kill.
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
            moment: 0,
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

    /// Sets the moment of the events that follow.
    pub(crate) fn set_moment(&mut self, moment: Moment) {
        self.moment = moment;
    }

    /// Returns what a node waited for last before its worker could start, or why the worker has to
    /// stop, and since when.
    pub(crate) fn cause(&self, id: NodeId) -> (Cause, Moment) {
        self.graph[id].cause
    }

    fn blame(&mut self, id: NodeId, cause: Cause) {
        self.graph[id].cause = (cause, self.moment);
    }

    /// Reserves room for more names in advance.
    pub(crate) fn reserve(&mut self, more: usize) {
        self.graph.reserve(more);
        self.pending.reserve(more);
    }

    /// Adds a name without a manifold. The name is freed once no manifold is installed at it and
    /// nothing uses or pins it.
    pub(crate) fn add(&mut self) -> NodeId {
        let id = self.graph.add();
        self.act_on(id);
        id
    }

    /// Makes a name a member of a set: whoever uses the set follows its members. A set is a name of
    /// its own, without a manifold.
    pub(crate) fn join(&mut self, set: NodeId, member: NodeId) {
        self.graph.join(set, member);
    }

    /// Returns the sets that a name is a member of.
    pub(crate) fn sets(&self, id: NodeId) -> &[NodeId] {
        self.graph[id].sets()
    }

    /// Returns the members of a set.
    pub(crate) fn members(&self, id: NodeId) -> impl Iterator<Item = NodeId> {
        self.graph[id].members()
    }

    /// Keeps a name, also when nothing uses it.
    pub(crate) fn pin(&mut self, id: NodeId) {
        self.graph[id].pins += 1;
    }

    /// Removes one pin.
    pub(crate) fn unpin(&mut self, id: NodeId) {
        self.graph[id].pins -= 1;
        self.act_on(id);
    }

    /// Puts a node before all others until the call on it is carried out. The caller does not wait
    /// for the work on other nodes.
    pub(crate) fn hurry(&mut self, id: NodeId) {
        self.set_urgent(id);
        self.act_on(id);
    }

    /// Begins a group. Until the group ends, nothing is started, and only a kill stops workers.
    pub(crate) fn begin_group(&mut self) {
        self.groups += 1;
    }

    pub(crate) fn end_group(&mut self) {
        self.groups -= 1;
    }

    /// Installs a manifold at a name, or replaces the installed one.
    ///
    /// The edges must not close a cycle; see [`Self::may_reach`] and
    /// [`CycleSearch`](cycles::CycleSearch).
    pub(crate) fn install(&mut self, id: NodeId, edges: &[Edge], policy: Option<Arc<Policy>>) {
        self.take_out(id);
        self.keep_policy(id, policy.as_ref());
        self.graph.link(id, edges);
        let node = &mut self.graph[id];
        node.is_installed = true;
        node.failures = 0;
        node.begin_policy(policy);
        self.blame(id, Cause::Call);
        self.recount(id);
        self.touch(id);
    }

    /// Uninstalls a manifold. Its name stays as long as something uses or pins it. Its policy stays
    /// until the next manifold: a live worker still has its own grace.
    pub(crate) fn uninstall(&mut self, id: NodeId) {
        self.take_out(id);
        self.blame(id, Cause::Call);
        let node = &mut self.graph[id];
        node.is_installed = false;
        node.is_parked = false;
        if !node.is_live() {
            self.commands.push_back(Command::Removed(id));
        }
        self.touch(id);
    }

    /// Keeps the policy of a live worker whose manifold is replaced by one with another policy: its
    /// graces are its own to the end.
    fn keep_policy(&mut self, id: NodeId, next: Option<&Arc<Policy>>) {
        let node = &self.graph[id];
        if !node.is_live() || node.old_policy().is_some() || node.policy() == next {
            return;
        }
        let policy = Arc::clone(node.policy().unwrap_or(&self.policy));
        self.graph[id].extras_mut().old_policy = Some(policy);
    }

    /// Removes the node's present manifold from the graph. A live worker keeps its hold on the
    /// inputs that it was started with until it is gone or stuck.
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
            self.mark(id, true, Cause::Call);
        }
        if !self.graph[id].is_active() {
            self.graph[id].rest = Rest::Ready;
        }
        if !self.graph[id].is_live() {
            self.disarm(id);
        }
    }

    /// Stops the worker and starts it again. If the worker has ended already, ends the node's rest,
    /// but not a bounce delay or a park by hand.
    pub(crate) fn bounce(&mut self, id: NodeId) {
        self.mark(id, true, Cause::Call);
        self.end_soft_rest(id, Cause::Call);
    }

    /// Stops the worker and keeps it stopped until it is unparked.
    pub(crate) fn park(&mut self, id: NodeId) {
        self.graph[id].is_parked = true;
        self.mark(id, true, Cause::Call);
        self.touch(id);
    }

    pub(crate) fn unpark(&mut self, id: NodeId) {
        self.graph[id].is_parked = false;
        if !self.graph[id].is_active() {
            self.blame(id, Cause::Call);
        }
        self.end_soft_rest(id, Cause::Call);
        self.touch(id);
    }

    /// Stops all workers, users before their inputs, and starts nothing more.
    pub(crate) fn kill(&mut self) {
        if !self.is_killed {
            self.is_killed = true;
            self.is_sweep_due = true;
        }
    }

    /// Notes that a worker is running and that its outputs are there.
    pub(crate) fn started(&mut self, id: NodeId, generation: Generation) {
        let node = &mut self.graph[id];
        if node.generation != generation || node.phase != Phase::Starting || node.is_overdue {
            return;
        }
        node.phase = Phase::Running;
        let is_told = node.stage > StopStage::Free;
        let is_outdated = std::mem::take(&mut node.is_outdated);
        // A worker that was told to stop keeps its timer, which is its grace.
        if !is_told {
            self.disarm(id);
        }
        if is_outdated {
            let (cause, _) = self.cause(id);
            self.mark(id, true, cause);
        }
        self.settle_in(id);
    }

    /// Notes that a running worker has published new values of some ports.
    pub(crate) fn changed(
        &mut self,
        id: NodeId,
        generation: Generation,
        has_changed: impl Fn(Port) -> bool,
    ) {
        let node = &self.graph[id];
        if node.generation != generation || node.phase != Phase::Running || self.is_killed {
            return;
        }
        for index in 0..node.users.len() {
            let user = self.graph[id].users[index];
            let target = &self.graph[user.node];
            let link = target.inputs[user.input as usize];
            if link.edge.need.follows() || !has_changed(link.edge.port) {
                continue;
            }
            // The user was not started with this generation, so it has no older value.
            if target.is_active() && link.held != generation {
                continue;
            }
            if self.graph[user.node].phase == Phase::Starting {
                self.graph[user.node].is_outdated = true;
                self.blame(user.node, Cause::Input(id));
            } else {
                self.mark(user.node, true, Cause::Input(id));
                self.end_soft_rest(user.node, Cause::Input(id));
            }
        }
    }

    /// Does the next piece of work within the scope, if there is any.
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
            // An event that came after the command was queued may need the name again.
            if !self.graph[id].is_forgettable() {
                return Step::Worked;
            }
            self.graph.free(id);
        }
        Step::Command(command)
    }

    /// Whether nothing will happen without a further cause. Backoffs do not count.
    pub(crate) fn is_settled(&self) -> bool {
        self.busy == 0
            && self.commands.is_empty()
            && !self.is_spreading()
            && self.pending.is_empty()
            && self.urgent.is_empty()
            && self.groups == 0
    }

    pub(crate) fn has_commands(&self) -> bool {
        !self.commands.is_empty()
    }

    /// Returns the number of live workers.
    pub(crate) fn live(&self) -> usize {
        self.live
    }

    pub(crate) fn is_killed(&self) -> bool {
        self.is_killed
    }

    /// Returns how many timers are armed. The driver's queue may also hold older ones.
    pub(crate) fn armed(&self) -> usize {
        self.armed
    }

    pub(crate) fn is_armed(&self, id: NodeId, token: Token) -> bool {
        self.graph[id].is_armed && self.graph[id].token == token
    }

    // Inlined, because callers read one or two fields: a call that filled in all fields took 5 % of
    // a start.
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

    /// Returns a node's inputs, and for each whether the live worker was started with it. A stuck
    /// worker counts as started with none.
    pub(crate) fn inputs(&self, id: NodeId) -> impl ExactSizeIterator<Item = (Edge, bool)> {
        let is_user = self.graph[id].stage < StopStage::Stuck;
        self.graph[id].inputs.iter().map(move |link| (link.edge, is_user && link.held != 0))
    }

    /// Returns one of a node's inputs by its index, like [`Self::inputs`].
    pub(crate) fn input(&self, id: NodeId, index: usize) -> Option<(Edge, bool)> {
        let is_user = self.graph[id].stage < StopStage::Stuck;
        self.graph[id].inputs.get(index).map(|link| (link.edge, is_user && link.held != 0))
    }

    /// Returns the users of a node, each with the index of the input. A node that uses another one
    /// twice is listed twice.
    pub(crate) fn users(&self, id: NodeId) -> impl Iterator<Item = (NodeId, usize)> {
        self.graph[id].users.iter().map(|user| (user.node, user.input as usize))
    }

    /// Returns whether a node's worker waits for its inputs and nothing else. After a kill, nothing is
    /// started whatever its inputs do.
    pub(crate) fn awaits_inputs(&self, id: NodeId) -> bool {
        self.graph[id].is_ready() && !self.can_start(id)
    }

    /// Returns whether a node's worker can be started now.
    pub(crate) fn can_start(&self, id: NodeId) -> bool {
        !self.is_killed && self.graph[id].can_start()
    }

    /// Returns whether a change has not reached all the workers yet that have to stop because of it.
    pub(crate) fn is_spreading(&self) -> bool {
        !self.spread.is_empty() || self.is_sweep_due || self.sweep.is_some()
    }

    /// Returns how long a worker must be up before its failures are forgotten.
    pub(crate) fn reset_after(&self, id: NodeId) -> Duration {
        self.policy_of(id).backoff.reset_after
    }

    /// Returns how long a worker that was told to stop has before its future is dropped.
    pub(crate) fn grace(&self, id: NodeId) -> Duration {
        self.live_policy_of(id).grace
    }

    /// Returns how long the start of the node's live worker may take.
    pub(crate) fn start_timeout(&self, id: NodeId) -> Duration {
        self.live_policy_of(id).start_timeout
    }

    /// Returns the policy by which the node's live worker was started.
    fn live_policy_of(&self, id: NodeId) -> &Policy {
        self.graph[id].old_policy().map_or_else(|| self.policy_of(id), AsRef::as_ref)
    }

    fn policy_of(&self, id: NodeId) -> &Policy {
        self.graph[id].policy().unwrap_or(&self.policy)
    }
}
