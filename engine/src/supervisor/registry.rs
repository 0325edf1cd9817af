//! The names of an engine, and the node of each.

use std::any::TypeId;
use std::hash::BuildHasher;
use std::mem;
use std::sync::Arc;

use foldhash::fast::RandomState;
use hashbrown::HashTable;
use hashbrown::hash_table::Entry;

use super::slot::{Slot, WorkerSlot};
use super::waits::Waits;
use crate::change::{Action, ChangeError};
use crate::machine::{Generation, Machine, NodeId, Port, StopStage};
use crate::seen::log::EventRef;
use crate::vocabulary::chunks::Chunks;
use crate::vocabulary::family::is_pattern;
use crate::vocabulary::hash::Map;
use crate::vocabulary::name::Text;
use crate::worker::host::Environment;
use crate::worker::launch::Declaration;
use crate::worker::selections::SelectedPart;

/// Among more names than these, no error suggests the nearest one: an error must stay cheap.
const NEAREST_AMONG: usize = 2_000;

/// No error suggests a name either if the comparisons take more steps than this, about a
/// millisecond. Two names take as many steps as the product of their lengths.
const NEAREST_STEPS: usize = 400_000;

/// The nodes in use, found by name. The names themselves are in the slots. Each engine has its own
/// random hash key, because names may come from outside.
#[derive(Default)]
pub(super) struct Names {
    nodes: HashTable<NodeId>,
    key: RandomState,
}

impl Names {
    /// Returns all nodes in use, in any order.
    pub(super) fn nodes(&self) -> impl ExactSizeIterator<Item = NodeId> {
        self.nodes.iter().copied()
    }
}

/// The names of an engine, with what the machine and the loop know of each.
pub(super) struct Registry {
    pub(super) environment: Arc<Environment>,
    pub(super) machine: Machine,
    pub(super) names: Names,
    pub(super) slots: Chunks<Slot>,
    /// The families that workers follow, by the beginning of their names, and the node of each.
    pub(super) sets: Vec<(Text, NodeId)>,
    pub(super) waits: Waits,
    /// The event of the engine's kill.
    pub(super) killed: EventRef,
    ports: Map<TypeId, Port>,
    next_port: u32,
    /// Whether any manifold was ever installed as a part of a nested engine.
    pub(super) has_parts: bool,
}

impl Registry {
    pub(super) fn new(environment: Arc<Environment>) -> Self {
        Self {
            machine: Machine::new(Arc::clone(&environment.policy), environment.seed),
            names: Names::default(),
            slots: Chunks::default(),
            sets: Vec::new(),
            waits: Waits::default(),
            killed: EventRef::default(),
            ports: Map::default(),
            next_port: 0,
            has_parts: false,
            environment,
        }
    }

    /// Makes room for this many more names.
    pub(super) fn reserve(&mut self, more: usize) {
        self.machine.reserve(more);
        self.slots.reserve(more);
        let Names { nodes, key } = &mut self.names;
        nodes.reserve(more, |node| key.hash_one(self.slots[*node].name().as_str()));
    }

    /// Returns the worker of a node if it is still of this generation.
    pub(super) fn worker(
        &mut self,
        node: NodeId,
        generation: Generation,
    ) -> Option<&mut WorkerSlot> {
        let worker = self.slots[node].worker.as_mut();
        worker.filter(|worker| worker.generation == generation)
    }

    pub(super) fn port(&mut self, kind: TypeId) -> Port {
        let Self { ports, next_port, .. } = self;
        *ports.entry(kind).or_insert_with(|| next(next_port))
    }

    /// Returns the port of an input. Each selection has a port of its own.
    pub(super) fn port_of(&mut self, input: &Declaration) -> Port {
        match input.selection {
            Some(_) => next(&mut self.next_port),
            None => self.port(input.kind.id()),
        }
    }

    /// Adds the selections that the manifold of a node makes.
    pub(super) fn add_selections(&self, user: NodeId) {
        let Some(manifold) = &self.slots[user].manifold else { return };
        let inputs = manifold.blueprint.inputs().iter().zip(self.machine.inputs(user));
        for (input, (edge, _)) in inputs {
            if let Some(selection) = input.selection.clone() {
                let part = SelectedPart { port: edge.port, kind: input.kind, selection };
                self.environment.selections.add(edge.target, user, part);
            }
        }
    }

    /// Removes the selections that the manifold of a node makes, before the manifold goes.
    pub(super) fn remove_selections(&self, user: NodeId) {
        let manifold = self.slots[user].manifold.iter();
        let inputs = manifold.flat_map(|manifold| manifold.blueprint.inputs());
        for input in inputs.filter(|input| input.selection.is_some()) {
            if let Some(target) = self.find(input.name.as_str()) {
                self.environment.selections.remove(target, user);
            }
        }
    }

    /// Whether a name is left out of what people see: a worker that passes a value across a border,
    /// unless it is stuck.
    pub(super) fn is_hidden(&self, node: NodeId) -> bool {
        self.slots[node].is_carrier
            && !self.environment.shows_carriers
            && self.machine.view(node).stage < StopStage::Stuck
    }

    /// Whether the manifold of a name is that of a nested engine.
    pub(super) fn is_nested(&self, node: NodeId) -> bool {
        let slot = &self.slots[node];
        slot.manifold.as_ref().is_some_and(|manifold| manifold.belongs_to(slot.name()))
    }

    pub(super) fn path(&self, node: NodeId) -> String {
        self.environment.path_of(self.slots[node].name().as_str())
    }

    /// Returns all nodes in use.
    pub(super) fn nodes(&self) -> impl ExactSizeIterator<Item = NodeId> {
        self.names.nodes()
    }

    /// Returns the node of a name if the name is in use.
    pub(super) fn find(&self, name: &str) -> Option<NodeId> {
        let Names { nodes, key } = &self.names;
        let is_it = |node: &NodeId| self.slots[*node].name().as_str() == name;
        nodes.find(key.hash_one(name), is_it).copied()
    }

    /// Returns the node of a name, and adds the name if it is new.
    pub(super) fn intern(&mut self, name: &Text) -> NodeId {
        let Names { nodes, key } = &mut self.names;
        let name_of = |node: &NodeId| self.slots[*node].name().as_str();
        let is_it = |node: &NodeId| name_of(node) == name.as_str();
        match nodes.entry(key.hash_one(name.as_str()), is_it, |node| key.hash_one(name_of(node))) {
            Entry::Occupied(found) => *found.get(),
            Entry::Vacant(place) => {
                let node = self.machine.add();
                place.insert(node);
                if node.index() == self.slots.len() {
                    self.slots.push_with(Slot::default);
                }
                self.slots[node].name = Some(name.clone());
                if !self.sets.is_empty() || is_pattern(name) {
                    self.join_sets(node);
                }
                node
            }
        }
    }

    /// Removes a name that nothing installs, uses or pins, and returns what its slot held.
    pub(super) fn forget(&mut self, node: NodeId) -> Slot {
        let slot = mem::take(&mut self.slots[node]);
        let Names { nodes, key } = &mut self.names;
        let hash = key.hash_one(slot.name().as_str());
        if let Ok(found) = nodes.find_entry(hash, |other| *other == node) {
            found.remove();
        }
        if is_pattern(slot.name()) {
            self.sets.retain(|(_, set)| *set != node);
        }
        slot
    }

    pub(super) fn not_installed(&self, node: NodeId, action: &Action) -> ChangeError {
        let name = self.slots[node].name().as_str();
        let action = action.verb();
        ChangeError::NotInstalled { action, name: name.to_owned(), nearest: self.nearest(name) }
    }

    /// Returns the installed name nearest to this one, if any is near enough.
    pub(super) fn nearest(&self, name: &str) -> Option<String> {
        if self.nodes().len() > NEAREST_AMONG {
            return None;
        }
        let bound = name.len().max(3) / 3;
        let installed = self.nodes().filter(|node| self.machine.view(*node).is_installed);
        let others = installed.map(|node| self.slots[node].name().as_str());
        // The distance is at least the difference of the lengths.
        let others: Vec<_> =
            others.filter(|other| other.len().abs_diff(name.len()) <= bound).collect();
        if others.iter().map(|other| name.len() * other.len()).sum::<usize>() > NEAREST_STEPS {
            return None;
        }
        let scored = others.iter().map(|other| (strsim::osa_distance(name, other), *other));
        let (distance, nearest) = scored.min()?;
        // No name is near to a name of one letter.
        let is_like = distance <= bound && distance < name.len();
        is_like.then(|| nearest.to_owned())
    }
}

/// Returns a port that was not used before. After 2^32 of them some are used again: then an input
/// may count as changed when another one has.
fn next(port: &mut u32) -> Port {
    *port = port.wrapping_add(1);
    Port(*port)
}
