//! What a plan knows of things that are not there yet.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use parking_lot::RwLock;

use crate::claim::Claim;
use crate::order::Order;

/// What the resources of a plan will have made or removed, as one of them sees it: only those that
/// come before it count. Cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct Foresight {
    shared: Arc<Shared>,
    /// The resource that looks.
    node: usize,
}

#[derive(Debug)]
struct Shared {
    order: Arc<Order>,
    /// By space and name: the resources that change a thing.
    things: RwLock<HashMap<String, HashMap<String, Vec<Change>>>>,
}

/// Which resource changes a thing, and whether it is there afterwards.
type Change = (usize, bool);

impl Foresight {
    /// Returns that nothing changes.
    pub(crate) fn new(order: &Arc<Order>) -> Self {
        let (order, things) = (Arc::clone(order), RwLock::default());
        Self { shared: Arc::new(Shared { order, things }), node: 0 }
    }

    /// Returns what another resource sees.
    #[must_use]
    pub(crate) fn of(&self, node: usize) -> Self {
        Self { shared: Arc::clone(&self.shared), node }
    }

    /// Notes what the resource will have made or removed.
    pub(crate) fn note(&self, claims: &[Claim]) {
        let made = claims.iter().filter_map(|claim| Some((claim, claim.makes_it_be()?)));
        let mut things = self.shared.things.write();
        for (claim, is_there) in made {
            let names = things.entry(claim.space.clone().into_owned()).or_default();
            names.entry(claim.name.clone()).or_default().push((self.node, is_there));
        }
    }

    /// Returns whether a thing will be there, if a resource before this one changes that. Two that
    /// disagree say nothing.
    pub(crate) fn sees(&self, space: &str, name: &str) -> Option<bool> {
        let things = self.shared.things.read();
        let changes = things.get(space)?.get(name)?;
        let nodes: Vec<_> = changes.iter().map(|(node, _)| *node).collect();
        let before = self.before(&nodes);
        let mut seen = changes.iter().filter(|(node, _)| before.contains(node));
        let (_, is_there) = seen.next()?;
        seen.all(|(_, other)| other == is_there).then_some(*is_there)
    }

    /// Returns which of some resources come before this one.
    fn before(&self, nodes: &[usize]) -> HashSet<usize> {
        let direct = self.shared.order.inputs(self.node);
        let mut found: HashSet<_> =
            nodes.iter().filter(|node| direct.contains(node)).copied().collect();
        let mut seen: HashSet<usize> = direct.iter().copied().collect();
        let mut open = direct.to_vec();
        while found.len() < nodes.len()
            && let Some(node) = open.pop()
        {
            if nodes.contains(&node) {
                found.insert(node);
            }
            let inputs = self.shared.order.inputs(node).iter().copied();
            open.extend(inputs.filter(|input| seen.insert(*input)));
        }
        found
    }
}
