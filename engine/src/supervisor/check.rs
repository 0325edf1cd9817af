//! Checks a group of changes before any of it is applied.

use super::job::Caller;
use super::plan::{Faults, Plan, Planned};
use super::registry::Registry;
use crate::change::{Action, ChangeError, Mode, Op};
use crate::machine::cycles::{CycleSearch, Found};
use crate::machine::{Edge, Need, NodeId};
use crate::manifolds::Manifold;
use crate::vocabulary::hash::Set;
use crate::vocabulary::name::{MAX_LEN, Text};
use crate::vocabulary::policy::Policy;
use crate::vocabulary::value::Kind;
use crate::worker::launch::Declaration;

impl Registry {
    /// Finds the nodes of an op and of its inputs, and what is wrong with the op by itself.
    pub(super) fn resolve(&mut self, plan: &mut Plan, ops: &[Op], at: usize, faults: &mut Faults) {
        let Op { name, action } = &ops[at];
        let node = self.intern(name);
        let is_first = plan.op_of(node).is_none();
        self.check_name(node, action, is_first, faults);
        // A node that loses its inputs counts too: its present edges go away.
        let mut is_linked = self.machine.inputs(node).len() > 0;
        let mut edges = Box::default();
        match action {
            Action::Install { manifold: Some(manifold), expected, .. } => {
                let name = || self.name(node);
                check_manifold(name, manifold, expected, &self.environment.policy, faults);
                edges = self.edges(node, manifold, faults);
                let has_users = || self.machine.users(node).next().is_some();
                is_linked |=
                    !edges.is_empty() || has_users() || !self.machine.sets(node).is_empty();
            }
            action => is_linked &= matches!(action, Action::Uninstall { .. }),
        }
        if is_linked && is_first {
            plan.linked.push(at);
        }
        plan.push(Planned { node, edges });
    }

    /// Checks that the present manifold of a name allows this op.
    fn check_name(&self, node: NodeId, action: &Action, is_first: bool, faults: &mut Faults) {
        let is_installed = self.machine.view(node).is_installed;
        if let Err(fault) = self.check_made_up(node, action, is_first) {
            return faults.add(|| fault);
        }
        if !is_first {
            return faults.add(|| ChangeError::NamedTwice { name: self.name(node) });
        }
        let Action::Install { manifold: Some(manifold), mode, .. } = action else {
            if !is_installed {
                faults.add(|| self.not_installed(node, action));
            }
            return;
        };
        let installed = self.slots[node].manifold.as_ref();
        match mode {
            Mode::Nothing if is_installed => {
                faults.add(|| ChangeError::AlreadyInstalled { name: self.name(node) });
            }
            Mode::Part if is_installed && !self.is_part_of_same(node, manifold) => {
                faults.add(|| ChangeError::AlreadyInstalled { name: self.name(node) });
            }
            Mode::Provided
                if installed.is_some_and(|installed| !installed.blueprint.is_provided()) =>
            {
                faults.add(|| ChangeError::NotProvided { name: self.name(node) });
            }
            Mode::Something if !is_installed => faults.add(|| self.not_installed(node, action)),
            _ => {}
        }
    }

    /// Checks a name that the user did not write: one made for the border of a nested engine.
    fn check_made_up(
        &self,
        node: NodeId,
        action: &Action,
        is_first: bool,
    ) -> Result<(), ChangeError> {
        let Action::Install { manifold: Some(manifold), mode, .. } = action else { return Ok(()) };
        let name = self.slots[node].name();
        let Some((nested, made)) = manifold.border(name) else { return Ok(()) };
        let is_in_the_way = match mode {
            Mode::Nothing => self.machine.view(node).is_installed,
            Mode::Part => {
                self.machine.view(node).is_installed && !self.is_part_of_same(node, manifold)
            }
            Mode::Something | Mode::Anything | Mode::Provided => false,
        };
        let fault = if made.as_str().len() > MAX_LEN {
            "longer than 255 bytes"
        } else if made.as_str() == name.as_str() && (is_in_the_way || !is_first) {
            "taken already"
        } else {
            return Ok(());
        };
        let [nested, name] = [nested, made].map(|name| name.as_str().to_owned());
        Err(ChangeError::BorderName { nested, name, fault })
    }

    /// Returns a name as text for an error.
    pub(super) fn name(&self, node: NodeId) -> String {
        self.slots[node].name().as_str().to_owned()
    }

    /// Whether a manifold belongs to the same nested engine as the one installed at this node.
    fn is_part_of_same(&self, node: NodeId, manifold: &Manifold) -> bool {
        let installed = self.slots[node].manifold.as_ref().and_then(Manifold::owner);
        let [installed, own] = [installed, manifold.owner()].map(|owner| owner.map(Text::as_str));
        installed.is_some() && installed == own
    }

    fn edges(&mut self, node: NodeId, manifold: &Manifold, faults: &mut Faults) -> Box<[Edge]> {
        let declared = manifold.blueprint.inputs();
        if declared.is_empty() {
            return Box::default();
        }
        let mut edges: Vec<Edge> = Vec::with_capacity(declared.len());
        let mut seen = Set::default();
        for input in declared {
            let edge = Edge {
                target: self.intern(&input.name),
                need: input.need,
                port: self.port_of(input),
            };
            if !seen.insert((edge.target, edge.port)) {
                faults.add(|| ChangeError::DuplicateInput {
                    name: self.name(node),
                    input: input.name.as_str().to_owned(),
                    kind: input.kind.name(),
                });
            }
            edges.push(edge);
        }
        edges.into_boxed_slice()
    }

    /// Compares the types of a new manifold's inputs with what their names offer, and the inputs of
    /// its users with what it offers.
    pub(super) fn check(&self, plan: &Plan, ops: &[Op], at: usize, faults: &mut Faults) {
        let Action::Install { manifold: Some(manifold), expected, .. } = &ops[at].action else {
            return;
        };
        let Planned { node, edges } = &plan.planned[at];
        let name = self.slots[*node].name();
        for (input, edge) in manifold.blueprint.inputs().iter().zip(edges) {
            if edge.need == Need::Set {
                for member in self.machine.members(edge.target) {
                    if let Some(offers) = self.misfit(plan, ops, input.kind, member) {
                        faults.add(|| self.member_mismatch((*node, input), member, offers));
                    }
                }
                continue;
            }
            if let Some(offers) = self.offers_after(plan, ops, edge.target)
                && !is_offered(input.kind, offers)
                && !is_for(plan, ops, edge.target, input.kind)
            {
                let asked = Asked { user: name, input: &input.name, kind: input.kind };
                faults.add(|| asked.mismatch(name, offers));
            }
        }
        let offers = manifold.blueprint.offers();
        for (user, index) in self.machine.users(*node) {
            // An installed user is checked as an op of its own. An uninstalled one needs no check.
            let action = plan.op_of(user).map(|at| &ops[at].action);
            if matches!(action, Some(Action::Install { .. } | Action::Uninstall { .. })) {
                continue;
            }
            let slot = &self.slots[user];
            let Some(installed) = &slot.manifold else { continue };
            let kind = installed.blueprint.inputs()[index].kind;
            if !is_offered(kind, offers) && !expected.is_same(kind) {
                let asked = Asked { user: slot.name(), input: name, kind };
                faults.add(|| asked.mismatch(name, offers));
            }
        }
        for set in self.machine.sets(*node) {
            for (user, index) in self.machine.users(*set) {
                let action = plan.op_of(user).map(|at| &ops[at].action);
                if matches!(action, Some(Action::Install { .. } | Action::Uninstall { .. })) {
                    continue;
                }
                let Some(installed) = &self.slots[user].manifold else { continue };
                let input = &installed.blueprint.inputs()[index];
                if let Some(offers) = self.misfit(plan, ops, input.kind, *node) {
                    faults.add(|| self.member_mismatch((user, input), *node, offers));
                }
            }
        }
    }

    /// Returns what a member of a family offers if it does not offer the family's type.
    fn misfit<'a>(
        &'a self,
        plan: &Plan,
        ops: &'a [Op],
        kind: &'static Kind,
        member: NodeId,
    ) -> Option<&'a [&'static Kind]> {
        let manifold = self.manifold_after(plan, ops, member)?;
        let offers = manifold.blueprint.offers();
        // A worker that takes a value out of the engine has a name that nobody chose.
        let fits =
            manifold.is_source() || is_offered(kind, offers) || is_for(plan, ops, member, kind);
        (!fits).then_some(offers)
    }

    fn member_mismatch(
        &self,
        (user, input): (NodeId, &Declaration),
        member: NodeId,
        offers: &[&'static Kind],
    ) -> ChangeError {
        ChangeError::MemberMismatch {
            user: self.name(user),
            family: input.name.as_str().to_owned(),
            member: self.name(member),
            asked: input.kind.name(),
            offered: offers.iter().map(|kind| kind.name()).collect(),
        }
    }

    /// Returns what a name will offer once the group is applied; `None` if it will have no
    /// manifold.
    fn offers_after<'a>(
        &'a self,
        plan: &Plan,
        ops: &'a [Op],
        node: NodeId,
    ) -> Option<&'a [&'static Kind]> {
        self.manifold_after(plan, ops, node).map(|manifold| manifold.blueprint.offers())
    }

    /// Returns the manifold of a name once the group is applied.
    fn manifold_after<'a>(
        &'a self,
        plan: &Plan,
        ops: &'a [Op],
        node: NodeId,
    ) -> Option<&'a Manifold> {
        match plan.op_of(node).map(|at| &ops[at].action) {
            Some(Action::Install { manifold, .. }) => manifold.as_ref(),
            Some(Action::Uninstall { .. }) => None,
            _ => self.slots[node].manifold.as_ref(),
        }
    }

    /// Takes one step of the search for a cycle, and returns whether there is more to do. Of
    /// several cycles the error names one.
    pub(super) fn search_cycle(
        &self,
        plan: &Plan,
        search: &mut CycleSearch,
        faults: &mut Faults,
    ) -> bool {
        if let Some(at) = plan.linked.get(search.len()) {
            let Planned { node, edges } = &plan.planned[*at];
            // Most groups with one linked op close no cycle. This quick check shows it at once.
            if plan.linked.len() == 1 && !self.machine.may_reach(*node, edges) {
                return false;
            }
            search.add(*node, edges);
            return true;
        }
        match search.step(&self.machine) {
            Found::Nothing => true,
            Found::None => false,
            Found::Cycle(cycle) => {
                let mut cycle = Some(cycle);
                faults.add(|| self.cycle_error(plan, cycle.take().unwrap_or_default()));
                false
            }
        }
    }

    fn cycle_error(&self, plan: &Plan, mut cycle: Vec<NodeId>) -> ChangeError {
        // The error starts with a node that is being installed, since its new inputs close the
        // cycle.
        let is_installed = |node: &NodeId| {
            let mut linked = plan.linked.iter().map(|at| &plan.planned[*at]);
            linked.any(|planned| planned.node == *node && !planned.edges.is_empty())
        };
        let first = cycle.iter().position(is_installed);
        cycle.rotate_left(first.unwrap_or(0));
        ChangeError::Cycle { path: cycle.iter().map(|node| self.name(*node)).collect() }
    }

    /// Checks that no op makes the asking worker wait for its own end. Of several such ops the
    /// error names one.
    pub(super) fn check_own_end(
        &self,
        plan: &Plan,
        ops: &[Op],
        caller: &Caller,
        faults: &mut Faults,
    ) {
        let Some((asker, generation)) = caller.asker else { return };
        if self.machine.view(asker).generation != generation {
            return;
        }
        let stopped = |(op, _): &(&Op, NodeId)| !matches!(op.action, Action::Unpark);
        let ops = || ops.iter().zip(plan.nodes()).filter(stopped);
        let roots: Vec<_> = ops().map(|(_, node)| node).collect();
        let ends_asker = |roots: &[NodeId]| self.machine.ending_before(roots).contains(&asker);
        if !ends_asker(&roots) {
            return;
        }
        if let Some((op, node)) = ops().find(|(_, node)| ends_asker(&[*node])) {
            faults.add(|| ChangeError::OwnEnd {
                action: op.action.verb(),
                name: self.name(node),
                asker: self.name(asker),
            });
        }
    }
}

/// Checks a manifold by itself.
fn check_manifold(
    name: impl Fn() -> String,
    manifold: &Manifold,
    expected: &'static Kind,
    policy: &Policy,
    faults: &mut Faults,
) {
    let offers = manifold.blueprint.offers();
    for (index, kind) in offers.iter().enumerate() {
        // A type that is offered three times or more is reported once.
        if offers[..index].iter().filter(|other| other.is_same(kind)).count() == 1 {
            faults.add(|| ChangeError::DuplicateOutput { name: name(), kind: kind.name() });
        }
    }
    if !is_offered(expected, offers) {
        faults.add(|| ChangeError::NameMismatch {
            name: name(),
            asked: expected.name(),
            offered: offers.iter().map(|kind| kind.name()).collect(),
        });
    }
    if let Some(settings) = &manifold.settings
        && let Err(source) = settings.policy(policy).validate()
    {
        faults.add(|| ChangeError::Settings { name: name(), source });
    }
}

/// Whether these offers include a type. Every manifold offers `()`, which means that its worker
/// runs.
pub(super) fn is_offered(kind: &Kind, offers: &[&'static Kind]) -> bool {
    offers.iter().any(|other| other.is_same(kind)) || kind.id() == std::any::TypeId::of::<()>()
}

/// One side of an edge: a user, its input, and the type it asks for.
struct Asked<'a> {
    user: &'a Text,
    input: &'a Text,
    kind: &'static Kind,
}

impl Asked<'_> {
    fn mismatch(&self, installed: &Text, offers: &[&'static Kind]) -> ChangeError {
        ChangeError::InputMismatch {
            name: installed.as_str().to_owned(),
            user: self.user.as_str().to_owned(),
            input: self.input.as_str().to_owned(),
            asked: self.kind.name(),
            offered: offers.iter().map(|kind| kind.name()).collect(),
        }
    }
}

/// Whether the group installs a manifold under a name of this type. If that manifold does not offer
/// the type, `check_manifold` has reported it, and its users are not reported too.
fn is_for(plan: &Plan, ops: &[Op], node: NodeId, kind: &Kind) -> bool {
    let action = plan.op_of(node).map(|at| &ops[at].action);
    matches!(action, Some(Action::Install { expected, .. }) if expected.is_same(kind))
}
