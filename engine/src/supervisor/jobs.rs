//! The queue of groups of changes.

use std::collections::VecDeque;

use super::job::{Caller, Job};
use super::registry::Registry;
use super::waiting::Waiting;
use crate::manifolds::Manifold;
use crate::vocabulary::name::Text;

/// The groups that callers asked for, and the callers that wait for them.
#[derive(Default)]
pub(super) struct Jobs {
    /// The group that is under way.
    pub(super) current: Option<Box<Job>>,
    pub(super) queue: VecDeque<Box<Job>>,
    removed_nested: Vec<RemovedNested>,
    pub(super) waiting: Waiting,
}

/// A nested engine that has uninstalled itself. Its parts are still to be uninstalled: they are
/// among its users and its inputs.
struct RemovedNested {
    name: Text,
    inputs: Vec<Text>,
}

impl Jobs {
    /// Whether any group is queued or under way.
    pub(super) fn is_busy(&self) -> bool {
        self.current.is_some() || !self.queue.is_empty() || !self.removed_nested.is_empty()
    }

    /// Remembers a nested engine that has uninstalled itself. Its parts are uninstalled before the
    /// next group.
    pub(super) fn on_removed(&mut self, name: &Text, manifold: &Manifold) {
        if manifold.belongs_to(name) {
            let inputs = manifold.blueprint.inputs().iter().map(|input| input.name.clone());
            self.removed_nested
                .push(RemovedNested { name: name.clone(), inputs: inputs.collect() });
        }
    }

    /// Returns the next group. A group that uninstalls the parts of a removed nested engine comes
    /// first. These parts are looked up only now, since the group before may have removed or
    /// replaced some.
    pub(super) fn next(&mut self, registry: &Registry) -> Option<Box<Job>> {
        while let Some(RemovedNested { name, inputs }) = self.removed_nested.pop() {
            let ops = registry.parts_left(&name, &inputs);
            if !ops.is_empty() {
                return Some(Box::new(Job::new(ops, Caller::default())));
            }
        }
        self.queue.pop_front()
    }
}
