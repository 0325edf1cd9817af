//! What goes with the names of a group: dependents, and the parts of nested engines.

use tokio::sync::oneshot;

use super::{Apply, EventLoop};
use crate::change::{Action, Op, Ops};
use crate::engine::Caller;
use crate::hash::Set;
use crate::machine::NodeId;
use crate::manifold::Manifold;

impl EventLoop {
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

    /// Takes out what belongs to a nested engine that has taken itself out.
    pub(super) fn take_out_parts(&mut self, node: NodeId, removed: Option<&Manifold>) {
        let nested = |manifold: &Manifold| manifold.settings.as_ref()?.part_of.clone();
        let name = self.slots[node.index()].name().clone();
        if removed.and_then(nested).is_none_or(|nested| nested.as_str() != name.as_str()) {
            return;
        }
        let parts = self.names.iter().filter(|part| {
            let manifold = self.slots[part.index()].manifold.as_ref();
            manifold.and_then(nested).is_some_and(|nested| nested.as_str() == name.as_str())
        });
        let ops: Ops = parts
            .map(|part| Op {
                name: self.slots[part.index()].name().clone(),
                action: Action::Uninstall { with_dependents: false },
            })
            .collect();
        if !ops.is_empty() {
            let (reply, caller) = (oneshot::channel().0, Caller::default());
            self.queue.push_back(Apply { ops, caller, reply });
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
}
