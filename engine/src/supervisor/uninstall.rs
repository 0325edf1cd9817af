//! Adds to a group what goes with its names: dependents, and parts of nested engines.

use super::registry::Registry;
use crate::change::{Action, Mode, Op, Ops};
use crate::machine::NodeId;
use crate::vocabulary::hash::{Map, Set};
use crate::vocabulary::name::Text;

impl Registry {
    /// Adds to a group what goes with its names.
    pub(super) fn complete(&self, ops: &mut Ops) {
        self.add_dependents(ops);
        if self.has_parts {
            self.add_parts(ops);
        }
    }

    /// Adds the parts of the nested engines that the group uninstalls or replaces. If the group
    /// installs a manifold under the name of a part, that manifold takes the place of the part.
    fn add_parts(&self, ops: &mut Ops) {
        let find = |op: &Op| self.find(op.name.as_str());
        let numbered = ops.iter().enumerate();
        let mut named: Map<NodeId, usize> =
            numbered.filter_map(|(at, op)| Some((find(op)?, at))).collect();
        for at in 0..ops.len() {
            let Op { name, action } = &ops[at];
            if !matches!(action, Action::Install { .. } | Action::Uninstall { .. }) {
                continue;
            }
            let Some(node) = self.find(name.as_str()) else { continue };
            let is_part = |other: &NodeId| {
                let manifold = self.slots[*other].manifold.as_ref();
                manifold.is_some_and(|manifold| manifold.belongs_to(name))
            };
            let users = self.machine.users(node).map(|(user, _)| user);
            let inputs = self.machine.inputs(node).map(|(edge, _)| edge.target);
            let parts: Vec<_> = users.chain(inputs).filter(is_part).collect();
            for part in parts {
                let Some(taker) = named.get(&part) else {
                    named.insert(part, ops.len());
                    let name = self.slots[part].name().clone();
                    ops.push(Op { name, action: Action::Uninstall { with_dependents: false } });
                    continue;
                };
                match &mut ops[*taker].action {
                    Action::Install { mode, .. } if *mode != Mode::Something => {
                        *mode = Mode::Anything;
                    }
                    Action::Install { .. } | Action::Uninstall { .. } => {}
                    other => *other = Action::Uninstall { with_dependents: false },
                }
            }
        }
    }

    /// Returns ops that uninstall the parts of a nested engine that is gone; none if its name is in
    /// use again.
    pub(super) fn parts_left(&self, name: &Text, inputs: &[Text]) -> Ops {
        let node = self.find(name.as_str());
        if node.is_some_and(|node| self.machine.view(node).is_installed) {
            return Ops::new();
        }
        let users = node.into_iter().flat_map(|node| self.machine.users(node));
        let inputs = inputs.iter().filter_map(|input| self.find(input.as_str()));
        let is_part = |part: &NodeId| {
            let manifold = self.slots[*part].manifold.as_ref();
            manifold.is_some_and(|manifold| manifold.belongs_to(name))
        };
        let mut parts: Vec<_> = users.map(|(user, _)| user).chain(inputs).filter(is_part).collect();
        parts.sort_unstable();
        parts.dedup();
        let take_out = |part: NodeId| Op {
            name: self.slots[part].name().clone(),
            action: Action::Uninstall { with_dependents: false },
        };
        parts.into_iter().map(take_out).collect()
    }

    /// Adds the dependents of every name that is uninstalled with its dependents.
    fn add_dependents(&self, ops: &mut Ops) {
        let with_dependents =
            |op: &Op| matches!(op.action, Action::Uninstall { with_dependents: true });
        let roots = ops.iter().filter(|op| with_dependents(op));
        let mut stack: Vec<NodeId> = roots.filter_map(|op| self.find(op.name.as_str())).collect();
        if stack.is_empty() {
            return;
        }
        let named = ops.iter().enumerate();
        let named: Map<NodeId, usize> =
            named.filter_map(|(at, op)| Some((self.find(op.name.as_str())?, at))).collect();
        let mut seen: Set<NodeId> = stack.iter().copied().collect();
        while let Some(node) = stack.pop() {
            for (user, _) in self.machine.users(node) {
                if !seen.insert(user) {
                    continue;
                }
                let action = Action::Uninstall { with_dependents: true };
                match named.get(&user).map(|at| &mut ops[*at].action) {
                    // A dependent that the group installs stays: its new manifold may have other
                    // inputs.
                    Some(Action::Install { .. }) => continue,
                    Some(other) => *other = action,
                    None => {
                        let name = self.slots[user].name().clone();
                        ops.push(Op { name, action });
                    }
                }
                stack.push(user);
            }
        }
    }
}
