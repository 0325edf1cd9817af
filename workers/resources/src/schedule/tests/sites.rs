//! Sites as plain sets, and random ones.

use std::collections::BTreeSet;

use super::random::Random;
use crate::schedule::{Graph, GraphBuilder, Id};

/// The resources of a site and their edges.
#[derive(Debug, Clone, Default)]
pub(super) struct Site {
    /// Each after those before it.
    pub(super) ids: Vec<Id>,
    /// A resource, and what it needs.
    pub(super) needs: BTreeSet<(Id, Id)>,
    /// A source, and its target.
    pub(super) notifications: BTreeSet<(Id, Id)>,
}

impl Site {
    /// Makes a site with numbers below `count`, of which some are missing. The numbers say nothing
    /// of the order.
    pub(super) fn random(random: &mut Random, count: usize) -> Self {
        let mut site = Self::default();
        let density = [5, 10, 25, 50][random.below(4)];
        let mut ids: Vec<Id> = (0..count).map(Id).collect();
        random.shuffle(&mut ids);
        for id in ids {
            if !random.chance(85) {
                continue;
            }
            for before in site.ids.clone() {
                if random.chance(density) {
                    site.needs.insert((id, before));
                    if random.chance(40) {
                        site.notifications.insert((before, id));
                    }
                }
                if random.chance(density / 2) {
                    site.notifications.insert((before, id));
                }
            }
            site.ids.push(id);
        }
        site
    }

    pub(super) fn graph(&self) -> Graph {
        let mut builder = GraphBuilder::default();
        for id in &self.ids {
            builder.resource(*id, Self::kind(*id));
        }
        for (id, used) in &self.needs {
            builder.needs(*id, *used);
        }
        for (source, target) in &self.notifications {
            builder.notifies(*source, *target);
        }
        builder.build().expect("the site was made without a cycle")
    }

    /// Returns the kind of a resource, if one action may be for several of the kind.
    pub(super) fn kind(id: Id) -> Option<u32> {
        [Some(0), Some(0), Some(0), Some(1), None][id.0 % 5]
    }

    /// Returns the length of the longest path to a resource.
    pub(super) fn depth(&self, id: Id) -> usize {
        self.before(id).map(|before| self.depth(before) + 1).max().unwrap_or(0)
    }

    pub(super) fn has(&self, id: Id) -> bool {
        self.ids.contains(&id)
    }

    pub(super) fn needs(&self, id: Id) -> impl Iterator<Item = Id> {
        self.needs.iter().filter(move |(it, _)| *it == id).map(|(_, used)| *used)
    }

    pub(super) fn needed_by(&self, id: Id) -> impl Iterator<Item = Id> {
        self.needs.iter().filter(move |(_, used)| *used == id).map(|(it, _)| *it)
    }

    pub(super) fn notifies(&self, id: Id) -> impl Iterator<Item = Id> {
        let notifications = self.notifications.iter();
        notifications.filter(move |(source, _)| *source == id).map(|(_, target)| *target)
    }

    pub(super) fn before(&self, id: Id) -> impl Iterator<Item = Id> {
        let notifications = self.notifications.iter();
        let sources = notifications.filter(move |(_, it)| *it == id).map(|(source, _)| *source);
        self.needs(id).chain(sources)
    }

    /// Returns everything before a resource, at any distance.
    pub(super) fn all_before(&self, id: Id) -> BTreeSet<Id> {
        closure(self.before(id).collect(), |id| self.before(id).collect())
    }

    /// Returns everything that a resource needs, at any distance.
    pub(super) fn all_needs(&self, id: Id) -> BTreeSet<Id> {
        closure(self.needs(id).collect(), |id| self.needs(id).collect())
    }
}

fn closure(mut open: Vec<Id>, next: impl Fn(Id) -> Vec<Id>) -> BTreeSet<Id> {
    let mut found = BTreeSet::new();
    while let Some(id) = open.pop() {
        if found.insert(id) {
            open.extend(next(id));
        }
    }
    found
}
