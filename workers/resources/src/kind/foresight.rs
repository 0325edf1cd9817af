//! What a plan knows of things that are not there yet.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use parking_lot::{Mutex, RwLock};

use crate::declare::claim::Claim;
use crate::declare::declaration::Declaration;
use crate::declare::order::Order;

/// What will be of a thing that a resource before this one changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Foreseen {
    /// It will be there, made or changed.
    There,
    /// It will be gone.
    Gone,
    /// It may be made, changed or removed.
    Unsure,
}

/// What the resources of a plan will have made or removed, as one of them sees it: only those that
/// come before it count. Cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct Foresight {
    shared: Arc<Shared>,
    /// The resource that looks.
    node: usize,
    earlier: Earlier,
    /// The resources whose changes it has asked for.
    seen: Arc<Mutex<BTreeSet<usize>>>,
}

/// What comes before a resource, at any distance.
#[derive(Debug, Clone, Copy, Default)]
struct Earlier {
    /// A resource that changes or may change.
    changing: Option<usize>,
    /// Such a resource that may make files that it does not name.
    making: Option<usize>,
}

#[derive(Debug)]
struct Shared {
    order: Arc<Order>,
    /// The names of the resources.
    names: Vec<String>,
    /// By space and name: the resources that change a thing.
    things: RwLock<HashMap<String, HashMap<String, Vec<Change>>>>,
    /// What comes before the resources after each one, once its look has ended.
    earlier: RwLock<Vec<Earlier>>,
}

/// Which resource changes a thing, and what will be of it.
type Change = (usize, Foreseen);

impl Foresight {
    /// Returns the foresight of a plan in which nothing changes.
    pub(crate) fn new(order: &Arc<Order>, declarations: &[Declaration]) -> Self {
        let names = declarations.iter().map(|declaration| declaration.name.clone()).collect();
        let (order, things) = (Arc::clone(order), RwLock::default());
        let earlier = vec![Earlier::default(); declarations.len()].into();
        let shared = Arc::new(Shared { order, names, things, earlier });
        Self { shared, node: 0, earlier: Earlier::default(), seen: Arc::default() }
    }

    /// Returns what another resource sees, after the looks at all that comes before it.
    #[must_use]
    pub(crate) fn of(&self, node: usize) -> Self {
        let Shared { order, earlier, .. } = &*self.shared;
        let all = earlier.read();
        let mut before = order.inputs(node).iter().map(|node| all[*node]);
        let changing = before.clone().find_map(|earlier| earlier.changing);
        let making = before.find_map(|earlier| earlier.making);
        let (shared, earlier) = (Arc::clone(&self.shared), Earlier { changing, making });
        Self { shared, node, earlier, seen: Arc::default() }
    }

    /// Ends the look at this resource: notes for those after it whether it changes or may change,
    /// and whether it may make files that it does not name then.
    pub(crate) fn end(&self, is_changing: bool, makes_unnamed: bool) {
        let if_it = |is_it: bool| is_it.then_some(self.node);
        self.shared.earlier.write()[self.node] = Earlier {
            changing: if_it(is_changing).or(self.earlier.changing),
            making: if_it(is_changing && makes_unnamed).or(self.earlier.making),
        };
    }

    /// Returns whether a resource before this one changes or may change.
    pub(crate) fn follows_changes(&self) -> bool {
        self.seen.lock().extend(self.earlier.changing);
        self.earlier.changing.is_some()
    }

    /// Returns whether a resource before this one that changes or may change may make files that it does not name.
    pub(crate) fn follows_makers(&self) -> bool {
        self.seen.lock().extend(self.earlier.making);
        self.earlier.making.is_some()
    }

    /// Notes what the resource will have made or removed.
    pub(crate) fn note(&self, claims: &[Claim]) {
        self.note_as(claims, |is_there| if is_there { Foreseen::There } else { Foreseen::Gone });
    }

    /// Notes what the resource may have made, changed or removed.
    pub(crate) fn note_unsure(&self, claims: &[Claim]) {
        self.note_as(claims, |_| Foreseen::Unsure);
    }

    /// Notes what will be of each thing that the resource makes be there or not.
    fn note_as(&self, claims: &[Claim], foreseen: impl Fn(bool) -> Foreseen) {
        let made = claims.iter().filter_map(|claim| Some((claim, claim.makes_it_be()?)));
        let mut things = self.shared.things.write();
        for (claim, is_there) in made {
            let names = things.entry(claim.space.clone().into_owned()).or_default();
            names.entry(claim.name.clone()).or_default().push((self.node, foreseen(is_there)));
        }
    }

    /// Returns what will be of a thing, if a resource before this one changes it. If two disagree,
    /// nothing is certain.
    pub(crate) fn sees(&self, space: &str, name: &str) -> Option<Foreseen> {
        let things = self.shared.things.read();
        let changes = things.get(space)?.get(name)?;
        let nodes: Vec<_> = changes.iter().map(|(node, _)| *node).collect();
        let before = self.before(&nodes);
        self.seen.lock().extend(&before);
        let seen = changes.iter().filter(|(node, _)| before.contains(node));
        let seen = seen.map(|(_, foreseen)| *foreseen);
        seen.reduce(|one, other| if one == other { one } else { Foreseen::Unsure })
    }

    /// Returns a resource before this one that changes or may change, if there is one.
    pub(crate) fn changing(&self) -> Option<String> {
        self.earlier.changing.map(|node| self.shared.names[node].clone())
    }

    /// Returns the resources before this one that change or may change, as far as it asked for them.
    pub(crate) fn seen(&self) -> Vec<String> {
        self.seen.lock().iter().map(|node| self.shared.names[*node].clone()).collect()
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
