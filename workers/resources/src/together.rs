//! Resources that are acted on together: one action for many.
//!
//! Invariants:
//! 1. Those that wait for each other are of one kind and equally deep in the graph. So no path joins
//!    two of them, and whatever one of them waits for is less deep than all: none waits for ever.
//! 2. A resource leaves its place when it acts, or when the place is dropped. So the others go on,
//!    however it ends.
//! 3. A resource that waits holds no slot of the walk, so there may be more of them than slots.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::oneshot;

use crate::declaration::Declaration;
use crate::kind::GroupMember;
use crate::kinds::Kinds;
use crate::order::Order;
use crate::walk::Slot;

/// The groups of the resources of one apply, by their positions.
#[derive(Debug)]
pub(crate) struct Groups(Vec<Option<Arc<Group>>>);

impl Groups {
    pub(crate) fn new(order: &Order, declarations: &[Declaration], kinds: &Kinds) -> Self {
        let mut depths = vec![0_usize; declarations.len()];
        for node in order.nodes() {
            let inputs = order.inputs(*node).iter();
            depths[*node] = inputs.map(|input| depths[*input] + 1).max().unwrap_or_default();
        }
        let mut groups: HashMap<(&str, usize), Arc<Group>> = HashMap::new();
        let group = |(declaration, depth): (&'_ Declaration, usize)| {
            let kind = kinds.get(&declaration.kind).ok().filter(|kind| kind.is_grouping())?;
            let group = groups.entry((kind.name(), depth)).or_default();
            group.0.lock().missing += 1;
            Some(Arc::clone(group))
        };
        Self(declarations.iter().zip(depths).map(group).collect())
    }

    /// Returns the place of a resource, if it has one. It has one place, so this is called once.
    pub(crate) fn place(&self, node: usize) -> Option<Place> {
        self.0[node].clone().map(|group| Place { group, node, is_left: false })
    }
}

/// Resources that may be acted on together.
#[derive(Debug, Default)]
struct Group(Mutex<Gathering>);

#[derive(Debug, Default)]
struct Gathering {
    /// How many may still come.
    missing: usize,
    /// Those that have come, by the key of their group, and by their positions.
    come: BTreeMap<String, BTreeMap<usize, Follower>>,
}

/// One that has come, and how it is told what to do.
#[derive(Debug)]
pub(crate) struct Follower {
    pub(crate) member: GroupMember,
    pub(crate) told: oneshot::Sender<Turn>,
}

/// What one that has come is to do.
#[derive(Debug)]
pub(crate) enum Turn {
    /// It acts for itself and for these.
    Lead(Vec<Follower>),
    /// It was acted for.
    Done,
    /// It acts for itself: acting together has failed, for this reason.
    Alone(String),
    /// Acting together was interrupted.
    Interrupted,
}

impl Gathering {
    /// Notes that one less may come. When none may any more, the first of each key acts for all of it.
    fn leave(&mut self) {
        self.missing -= 1;
        if self.missing > 0 {
            return;
        }
        for (_, come) in std::mem::take(&mut self.come) {
            let mut come = come.into_values();
            if let Some(leader) = come.next() {
                // If its apply was dropped, the channels of the others are dropped here, which tells them.
                drop(leader.told.send(Turn::Lead(come.collect())));
            }
        }
    }
}

/// The place of one resource in its group.
#[derive(Debug)]
pub(crate) struct Place {
    group: Arc<Group>,
    /// The position of the resource.
    node: usize,
    is_left: bool,
}

impl Place {
    /// Waits for the others, and returns what to do; `None` if nothing may begin any more.
    pub(crate) async fn gather(
        mut self,
        slot: Option<&mut Slot>,
        (key, member): (String, GroupMember),
    ) -> Option<Turn> {
        let (told, turn) = oneshot::channel();
        {
            let mut gathering = self.group.0.lock();
            let come = gathering.come.entry(key).or_default();
            come.insert(self.node, Follower { member, told });
            gathering.leave();
        }
        self.is_left = true;
        // The channel is closed if the leader may not begin.
        match slot {
            Some(slot) => slot.without(turn).await.ok(),
            None => turn.await.ok(),
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        if !self.is_left {
            self.group.0.lock().leave();
        }
    }
}
