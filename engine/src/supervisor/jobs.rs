use std::collections::VecDeque;

use super::job::{Caller, Job};
use super::registry::Registry;
use super::waiting::Waiting;
use crate::manifold::Manifold;
use crate::vocabulary::name::Text;

/// Groups of changes that were asked for, and those who wait for them.
#[derive(Default)]
pub(super) struct Jobs {
    /// The one that is under way.
    pub(super) current: Option<Box<Job>>,
    pub(super) queue: VecDeque<Box<Job>>,
    removed_nested: Vec<RemovedNested>,
    pub(super) waiting: Waiting,
}

/// A nested engine that has taken itself out, and whose parts are still to go: its users, and what
/// it used.
struct RemovedNested {
    name: Text,
    inputs: Vec<Text>,
}

impl Jobs {
    /// Whether there are calls that were not begun, or are not done.
    pub(super) fn is_busy(&self) -> bool {
        self.current.is_some() || !self.queue.is_empty() || !self.removed_nested.is_empty()
    }

    /// Remembers a nested engine that has taken itself out: its parts go before the next group.
    pub(super) fn on_removed(&mut self, name: &Text, manifold: &Manifold) {
        if manifold.belongs_to(name) {
            let inputs = manifold.blueprint.inputs().iter().map(|input| input.name.clone());
            self.removed_nested
                .push(RemovedNested { name: name.clone(), inputs: inputs.collect() });
        }
    }

    /// Returns the next group: first what takes out the parts that a nested engine has left which
    /// took itself out. They are looked for only now: the group before may have taken or replaced
    /// some.
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
