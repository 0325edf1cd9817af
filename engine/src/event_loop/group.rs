//! Changes: a group is checked as a whole, then applied as one wave, in slices.

use std::sync::Arc;

use smallvec::SmallVec;

use super::slot::Slot;
use super::waiting::answer;
use super::{Apply, EventLoop};
use crate::change::{Action, ChangeError, Mode, Op, Ops};
use crate::engine::Caller;
use crate::event::{EventKind, Origin};
use crate::hash::{Map, Set};
use crate::machine::{Edge, Generation, NodeId};
use crate::manifold::Manifold;
use crate::name::Text;
use crate::policy::Policy;
use crate::value::Kind;

/// Among more names than these no near one is looked for: an error must stay cheap.
const NEAREST_AMONG: usize = 2_000;

/// A group that is being checked or applied.
pub(super) struct Job {
    ops: Ops,
    caller: Caller,
    reply: super::ChangeReply,
    plan: Plan,
    /// The workers that the group itself stops.
    ending: Vec<(NodeId, Generation)>,
    stage: Stage,
}

/// What a group is to the graph.
#[derive(Default)]
pub(super) struct Plan {
    /// The node of each op.
    pub(super) nodes: SmallVec<[NodeId; 1]>,
    /// The inputs of each op that installs; empty for others.
    pub(super) edges: SmallVec<[Box<[Edge]>; 1]>,
    /// Which op changes a node, where there is more than one.
    changed: Map<NodeId, usize>,
    /// The ops whose manifolds use others or are used: their types and cycles are to be checked.
    pub(super) linked: Vec<usize>,
}

#[derive(Clone, Copy)]
enum Stage {
    Resolve(usize),
    Check(usize),
    Apply(usize),
}

impl Job {
    fn new(apply: Apply) -> Self {
        let Apply { ops, caller, reply } = apply;
        Self {
            ops,
            caller,
            reply,
            plan: Plan::default(),
            ending: Vec::new(),
            stage: Stage::Resolve(0),
        }
    }
}

impl EventLoop {
    /// Takes the next change from the queue.
    pub(super) fn begin_next_job(&mut self) -> Option<Job> {
        let mut apply = self.queue.pop_front()?;
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
        }
        self.machine.begin_group();
        let mut job = Job::new(apply);
        if count > 1 {
            job.plan.nodes.reserve(count);
            job.plan.edges.reserve(count);
            job.plan.changed.reserve(count);
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
                    self.waiting.add(&ending, job.reply);
                    // Letting go of a hundred thousand names takes longer than a slice.
                    self.reaper.take_ops(job.ops);
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
            if steps % super::STEPS == 0 && self.is_slice_over() {
                return Some(job);
            }
        }
    }

    /// Takes one step of a group; returns whether it was the last.
    fn advance(&mut self, job: &mut Job) -> Result<bool, ChangeError> {
        job.stage = match job.stage {
            Stage::Resolve(at) if at < job.ops.len() => {
                self.resolve(&mut job.plan, &job.ops, at)?;
                Stage::Resolve(at + 1)
            }
            Stage::Resolve(_) => Stage::Check(0),
            Stage::Check(at) if at < job.plan.linked.len() => {
                self.check(&job.plan, &job.ops, job.plan.linked[at])?;
                Stage::Check(at + 1)
            }
            Stage::Check(_) => {
                self.check_cycles(&job.plan)?;
                self.check_own_end(job)?;
                Stage::Apply(0)
            }
            Stage::Apply(at) if at < job.ops.len() => {
                let (node, edges) = (job.plan.nodes[at], std::mem::take(&mut job.plan.edges[at]));
                self.apply(node, &edges, &mut job.ops[at].action, job.caller.origin.as_ref());
                let view = self.machine.view(node);
                if view.is_marked && !matches!(job.ops[at].action, Action::Unpark) {
                    job.ending.push((node, view.generation));
                }
                Stage::Apply(at + 1)
            }
            Stage::Apply(_) => return Ok(true),
        };
        Ok(false)
    }

    /// Finds the node of an op and of its inputs, and what is wrong with the op by itself.
    pub(super) fn resolve(
        &mut self,
        plan: &mut Plan,
        ops: &[Op],
        at: usize,
    ) -> Result<(), ChangeError> {
        let Op { name, action } = &ops[at];
        let node = self.intern(name);
        plan.nodes.push(node);
        if ops.len() > 1 && plan.changed.insert(node, at).is_some() {
            return Err(ChangeError::NamedTwice { name: name.as_str().to_owned() });
        }
        let is_installed = self.machine.view(node).is_installed;
        // One that will use nothing counts too: it no longer uses what it does now.
        let is_linked = self.machine.inputs(node).len() > 0;
        let Action::Install { manifold: Some(manifold), expected, mode } = action else {
            plan.edges.push(Box::default());
            if is_linked && matches!(action, Action::Uninstall { .. }) {
                plan.linked.push(at);
            }
            return if is_installed { Ok(()) } else { Err(self.not_installed(name, action)) };
        };
        if is_installed && *mode == Mode::Nothing {
            return Err(ChangeError::AlreadyInstalled { name: name.as_str().to_owned() });
        }
        if *mode == Mode::Provided
            && self.slots[node.index()]
                .manifold
                .as_ref()
                .is_some_and(|installed| !installed.blueprint.is_provided())
        {
            return Err(ChangeError::NotProvided { name: name.as_str().to_owned() });
        }
        if !is_installed && *mode == Mode::Something {
            return Err(self.not_installed(name, action));
        }
        check_manifold(name, manifold, expected, &self.shared.policy)?;
        let edges = self.edges(name, manifold)?;
        if is_linked || !edges.is_empty() || self.machine.users(node).next().is_some() {
            plan.linked.push(at);
        }
        plan.edges.push(edges);
        Ok(())
    }

    fn edges(&mut self, name: &Text, manifold: &Manifold) -> Result<Box<[Edge]>, ChangeError> {
        let declared = manifold.blueprint.inputs();
        let mut edges: Vec<Edge> = Vec::with_capacity(declared.len());
        let mut seen = Set::default();
        for input in declared {
            let edge = Edge {
                target: self.intern(&input.name),
                need: input.need,
                port: self.port(input.kind.id()),
            };
            if !seen.insert((edge.target, edge.port)) {
                return Err(ChangeError::DuplicateInput {
                    name: name.as_str().to_owned(),
                    input: input.name.as_str().to_owned(),
                    kind: input.kind.name(),
                });
            }
            edges.push(edge);
        }
        Ok(edges.into_boxed_slice())
    }

    /// Compares what a manifold asks of others, and others of it, with what is offered.
    pub(super) fn check(&self, plan: &Plan, ops: &[Op], at: usize) -> Result<(), ChangeError> {
        let Op { name, action } = &ops[at];
        let Action::Install { manifold: Some(manifold), .. } = action else { return Ok(()) };
        for (input, edge) in manifold.blueprint.inputs().iter().zip(&plan.edges[at]) {
            if let Some(offers) = self.offers_after(plan, ops, edge.target) {
                let asked = Asked { user: name, input: &input.name, kind: input.kind };
                asked.compare(name, offers)?;
            }
        }
        for (user, index) in self.machine.users(plan.nodes[at]) {
            if plan.op_of(user, at).is_some() {
                continue;
            }
            let slot = &self.slots[user.index()];
            let Some(installed) = &slot.manifold else { continue };
            let input = &installed.blueprint.inputs()[index];
            let asked = Asked { user: slot.name(), input: name, kind: input.kind };
            asked.compare(name, manifold.blueprint.offers())?;
        }
        Ok(())
    }

    /// Returns what a name will offer once the group is applied; nothing known if no manifold will
    /// be there.
    fn offers_after<'a>(
        &'a self,
        plan: &Plan,
        ops: &'a [Op],
        node: NodeId,
    ) -> Option<&'a [&'static Kind]> {
        let change = plan.changed.get(&node).map(|at| &ops[*at].action);
        match change {
            Some(Action::Install { manifold, .. }) => {
                manifold.as_ref().map(|manifold| manifold.blueprint.offers())
            }
            Some(Action::Uninstall { .. }) => None,
            _ => {
                let manifold = self.slots[node.index()].manifold.as_ref()?;
                Some(manifold.blueprint.offers())
            }
        }
    }

    pub(super) fn check_cycles(&self, plan: &Plan) -> Result<(), ChangeError> {
        if plan.linked.is_empty() {
            return Ok(());
        }
        let linked = plan.linked.iter();
        let rewirings: Vec<_> = linked.map(|at| (plan.nodes[*at], &*plan.edges[*at])).collect();
        let Some(mut cycle) = self.machine.find_cycle(&rewirings) else { return Ok(()) };
        // It is told from what is being installed, which closes it.
        let first = cycle.iter().position(|node| {
            rewirings.iter().any(|(rewired, edges)| rewired == node && !edges.is_empty())
        });
        cycle.rotate_left(first.unwrap_or(0));
        let name = |node: &NodeId| self.slots[node.index()].name().as_str().to_owned();
        Err(ChangeError::Cycle { path: cycle.iter().map(name).collect() })
    }

    /// Refuses what would make the asking worker wait for its own end.
    fn check_own_end(&self, job: &Job) -> Result<(), ChangeError> {
        let Some((asker, generation)) = job.caller.asker else { return Ok(()) };
        if self.machine.view(asker).generation != generation {
            return Ok(());
        }
        let stopped = |(op, _): &(&Op, &NodeId)| !matches!(op.action, Action::Unpark);
        let ops = || job.ops.iter().zip(&job.plan.nodes).filter(stopped);
        let roots: Vec<_> = ops().map(|(_, node)| *node).collect();
        if !self.machine.bounced_with(&roots).contains(&asker) {
            return Ok(());
        }
        for (op, node) in ops() {
            if self.machine.bounced_with(&[*node]).contains(&asker) {
                return Err(ChangeError::OwnEnd {
                    action: op.action.verb(),
                    name: op.name.as_str().to_owned(),
                    asker: self.slots[asker.index()].name().as_str().to_owned(),
                });
            }
        }
        Ok(())
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

    /// Says that a live worker belongs to a manifold that is no longer installed.
    fn disown(&mut self, node: NodeId) {
        if let Some(worker) = &mut self.slots[node.index()].worker {
            worker.is_obsolete = true;
        }
    }

    /// Refuses a group. The names that were only made for it are forgotten by the machine.
    pub(super) fn refuse(&mut self, job: Job, error: ChangeError) {
        self.reaper.take_ops(job.ops);
        answer(job.reply, Err(Box::new(error)));
    }

    /// Adds what goes with the names of a group.
    pub(super) fn complete(&self, ops: &mut Ops) {
        self.add_dependents(ops);
        if self.has_parts {
            self.add_parts(ops);
        }
    }

    /// Adds what belongs to nested engines that are taken out or replaced.
    fn add_parts(&self, ops: &mut Ops) {
        let mut named: Set<NodeId> =
            ops.iter().filter_map(|op| self.names.find(&self.slots, op.name.as_str())).collect();
        for at in 0..ops.len() {
            let Op { name, action } = &ops[at];
            if !matches!(action, Action::Install { .. } | Action::Uninstall { .. }) {
                continue;
            }
            let Some(node) = self.names.find(&self.slots, name.as_str()) else { continue };
            let is_part = |other: &NodeId| {
                let manifold = self.slots[other.index()].manifold.as_ref();
                let settings = manifold.and_then(|manifold| manifold.settings.as_ref());
                let nested = settings.and_then(|settings| settings.part_of.as_ref());
                nested.is_some_and(|nested| nested.as_str() == name.as_str())
            };
            let users = self.machine.users(node).map(|(user, _)| user);
            let inputs = self.machine.inputs(node).map(|(edge, _)| edge.target);
            let parts: Vec<_> = users.chain(inputs).filter(is_part).collect();
            for part in parts {
                if named.insert(part) {
                    let name = self.slots[part.index()].name().clone();
                    ops.push(Op { name, action: Action::Uninstall { with_dependents: false } });
                }
            }
        }
    }

    /// Adds the dependents of what is to go with them.
    fn add_dependents(&self, ops: &mut Ops) {
        let with_dependents =
            |op: &Op| matches!(op.action, Action::Uninstall { with_dependents: true });
        let roots = ops.iter().filter(|op| with_dependents(op));
        let mut stack: Vec<NodeId> =
            roots.filter_map(|op| self.names.find(&self.slots, op.name.as_str())).collect();
        if stack.is_empty() {
            return;
        }
        let mut seen: Set<NodeId> =
            ops.iter().filter_map(|op| self.names.find(&self.slots, op.name.as_str())).collect();
        while let Some(node) = stack.pop() {
            for (user, _) in self.machine.users(node) {
                if seen.insert(user) {
                    stack.push(user);
                    let name = self.slots[user.index()].name().clone();
                    let action = Action::Uninstall { with_dependents: true };
                    ops.push(Op { name, action });
                }
            }
        }
    }

    /// Returns the node of a name, adding it if it is new.
    pub(super) fn intern(&mut self, name: &Text) -> NodeId {
        if let Some(node) = self.names.find(&self.slots, name.as_str()) {
            return node;
        }
        let node = self.machine.add();
        if node.index() == self.slots.len() {
            self.slots.push(Slot::default());
        }
        self.slots[node.index()].name = Some(name.clone());
        self.names.insert(name.as_str(), node);
        node
    }

    pub(super) fn not_installed(&self, name: &Text, action: &Action) -> ChangeError {
        let name = name.as_str();
        let action = action.verb();
        ChangeError::NotInstalled { action, name: name.to_owned(), nearest: self.nearest(name) }
    }

    fn nearest(&self, name: &str) -> Option<String> {
        if self.names.len() > NEAREST_AMONG {
            return None;
        }
        let installed = self.names.iter().filter(|node| self.machine.view(*node).is_installed);
        let scored = installed.map(|node| {
            let other = self.slots[node.index()].name().as_str();
            (strsim::osa_distance(name, other), other)
        });
        let (distance, nearest) = scored.min()?;
        (distance <= name.len().max(3) / 3).then(|| nearest.to_owned())
    }
}

impl Plan {
    /// Returns the op that changes a node's manifold, in a group whose op `at` is looked at.
    fn op_of(&self, node: NodeId, at: usize) -> Option<usize> {
        if self.nodes[at] == node { Some(at) } else { self.changed.get(&node).copied() }
    }
}

/// Checks a manifold by itself.
fn check_manifold(
    name: &Text,
    manifold: &Manifold,
    expected: &'static Kind,
    policy: &Policy,
) -> Result<(), ChangeError> {
    let offers = manifold.blueprint.offers();
    for (index, kind) in offers.iter().enumerate() {
        if offers[..index].iter().any(|other| other.id() == kind.id()) {
            let name = name.as_str().to_owned();
            return Err(ChangeError::DuplicateOutput { name, kind: kind.name() });
        }
    }
    if !is_offered(expected, offers) {
        return Err(ChangeError::NameMismatch {
            name: name.as_str().to_owned(),
            asked: expected.name(),
            offered: offers.iter().map(|kind| kind.name()).collect(),
        });
    }
    if let Some(settings) = &manifold.settings
        && let Err(source) = settings.policy(policy).validate()
    {
        return Err(ChangeError::Settings { name: name.as_str().to_owned(), source });
    }
    Ok(())
}

/// Every manifold offers `()`: it runs.
pub(super) fn is_offered(kind: &Kind, offers: &[&'static Kind]) -> bool {
    kind.id() == std::any::TypeId::of::<()>() || offers.iter().any(|other| other.id() == kind.id())
}

/// One side of an edge: who asks for what.
struct Asked<'a> {
    user: &'a Text,
    input: &'a Text,
    kind: &'static Kind,
}

impl Asked<'_> {
    fn compare(&self, installed: &Text, offers: &[&'static Kind]) -> Result<(), ChangeError> {
        if is_offered(self.kind, offers) {
            return Ok(());
        }
        Err(ChangeError::InputMismatch {
            name: installed.as_str().to_owned(),
            user: self.user.as_str().to_owned(),
            input: self.input.as_str().to_owned(),
            asked: self.kind.name(),
            offered: offers.iter().map(|kind| kind.name()).collect(),
        })
    }
}
