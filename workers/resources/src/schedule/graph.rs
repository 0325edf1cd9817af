//! The graph of a site: its resources, and the order among them.

use std::collections::BTreeSet;

use super::id::{Id, Table};

/// The resources of a site. What a resource needs, and what notifies it, comes before it.
///
/// Each list of neighbours is in the order of the numbers. An unknown number has no neighbours.
#[derive(Debug, Clone, Default)]
pub(crate) struct Graph {
    places: Table<Place>,
    /// All resources, each after those before it.
    order: Vec<Id>,
}

/// Resources that are on a cycle, or after one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct CycleError(pub(crate) Vec<Id>);

/// The parts of a graph: resources, and edges in any order.
#[derive(Debug, Clone, Default)]
pub(crate) struct GraphBuilder {
    resources: Vec<(Id, Option<u32>)>,
    needs: Vec<(Id, Id)>,
    notifications: Vec<(Id, Id)>,
}

/// One resource and its direct neighbours.
#[derive(Debug, Clone, Default)]
struct Place {
    is_used: bool,
    needs: Vec<Id>,
    needed_by: Vec<Id>,
    notifies: Vec<Id>,
    /// The resources that it needs, and those that notify it.
    before: Vec<Id>,
    /// The resources that need it, and those that it notifies.
    after: Vec<Id>,
    /// Its position in the order.
    rank: usize,
    /// The length of the longest path to it.
    depth: usize,
    /// The number of its kind, if one action may be for several resources of the kind.
    kind: Option<u32>,
}

impl GraphBuilder {
    /// Adds a resource, each once. `kind` is the number of its kind, if one action may be for
    /// several resources of the kind.
    pub(crate) fn resource(&mut self, id: Id, kind: Option<u32>) -> &mut Self {
        self.resources.push((id, kind));
        self
    }

    /// Adds that a resource needs another one.
    pub(crate) fn needs(&mut self, id: Id, used: Id) -> &mut Self {
        self.needs.push((id, used));
        self
    }

    /// Adds that a resource notifies another one.
    pub(crate) fn notifies(&mut self, source: Id, target: Id) -> &mut Self {
        self.notifications.push((source, target));
        self
    }

    /// Builds the graph. Ignores edges whose ends are not both resources of it.
    ///
    /// # Errors
    ///
    /// When resources are before each other.
    pub(crate) fn build(&self) -> Result<Graph, CycleError> {
        let len = self.resources.iter().map(|(id, _)| id.0 + 1).max().unwrap_or(0);
        let mut places: Table<Place> = Table::new(len);
        for (id, kind) in &self.resources {
            (places[*id].is_used, places[*id].kind) = (true, *kind);
        }
        let is_used = |places: &Table<Place>, id| places.get(id).is_some_and(|it| it.is_used);
        for (id, used) in self.needs.iter().copied() {
            if is_used(&places, id) && is_used(&places, used) {
                places[id].needs.push(used);
                places[used].needed_by.push(id);
                places[id].before.push(used);
                places[used].after.push(id);
            }
        }
        for (source, target) in self.notifications.iter().copied() {
            if is_used(&places, source) && is_used(&places, target) {
                places[source].notifies.push(target);
                places[target].before.push(source);
                places[source].after.push(target);
            }
        }
        for place in places.values_mut() {
            let Place { needs, needed_by, notifies, before, after, .. } = place;
            for neighbours in [needs, needed_by, notifies, before, after] {
                neighbours.sort_unstable();
                neighbours.dedup();
            }
        }
        Ok(Graph { order: self.order(&mut places)?, places })
    }

    /// Puts the resources into an order, and notes rank and depth of each. Those that have no order
    /// are in the one in which they were added.
    fn order(&self, places: &mut Table<Place>) -> Result<Vec<Id>, CycleError> {
        let mut missing: Table<usize> = Table::new(places.len());
        let mut added: Table<usize> = Table::new(places.len());
        let mut ready = BTreeSet::new();
        for (position, (id, _)) in self.resources.iter().enumerate() {
            (missing[*id], added[*id]) = (places[*id].before.len(), position);
            if missing[*id] == 0 {
                ready.insert((position, *id));
            }
        }
        let mut order = Vec::with_capacity(self.resources.len());
        while let Some((_, id)) = ready.pop_first() {
            let depth = places[id].before.iter().map(|before| places[*before].depth + 1).max();
            (places[id].rank, places[id].depth) = (order.len(), depth.unwrap_or(0));
            order.push(id);
            for after in places[id].after.iter().copied() {
                missing[after] -= 1;
                if missing[after] == 0 {
                    ready.insert((added[after], after));
                }
            }
        }
        let left = self.resources.iter().map(|(id, _)| *id).filter(|id| missing[*id] > 0);
        let left: Vec<Id> = left.collect();
        if left.is_empty() { Ok(order) } else { Err(CycleError(left)) }
    }
}

impl Graph {
    /// Returns all resources, each after those before it.
    pub(crate) fn ids(&self) -> &[Id] {
        &self.order
    }

    pub(crate) fn contains(&self, id: Id) -> bool {
        self.places.get(id).is_some_and(|place| place.is_used)
    }

    /// Returns the resources that a resource needs directly.
    pub(crate) fn needs(&self, id: Id) -> &[Id] {
        self.places.get(id).map_or(&[], |place| &place.needs)
    }

    /// Returns the resources that a resource notifies.
    pub(crate) fn notifies(&self, id: Id) -> &[Id] {
        self.places.get(id).map_or(&[], |place| &place.notifies)
    }

    /// Returns the resources that need a resource directly.
    pub(crate) fn needed_by(&self, id: Id) -> &[Id] {
        self.places.get(id).map_or(&[], |place| &place.needed_by)
    }

    /// Returns the resources that a resource needs directly, and those that notify it.
    pub(super) fn before(&self, id: Id) -> &[Id] {
        self.places.get(id).map_or(&[], |place| &place.before)
    }

    /// Returns the resources that need a resource directly, and those that it notifies.
    pub(super) fn after(&self, id: Id) -> &[Id] {
        self.places.get(id).map_or(&[], |place| &place.after)
    }

    /// Returns a number above the numbers of all resources.
    pub(super) fn len(&self) -> usize {
        self.places.len()
    }

    /// Returns the position of a resource in the order.
    pub(super) fn rank(&self, id: Id) -> usize {
        self.places[id].rank
    }

    /// Returns kind and depth of a resource, if one action may be for several resources of its
    /// kind.
    pub(super) fn class(&self, id: Id) -> Option<Class> {
        let place = self.places.get(id)?;
        Some(Class { kind: place.kind?, depth: place.depth })
    }
}

/// The resources of one kind with equally long paths to them. No path joins two of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Class {
    kind: u32,
    depth: usize,
}
