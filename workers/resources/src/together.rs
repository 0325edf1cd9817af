//! Resources that are acted on together: one action for many.
//!
//! Invariants:
//! 1. Those of one kind that are equally deep in the graph wait for each other. No path joins two of
//!    them, and who is waited for waits only for some that are less deep: so none waits for ever.
//! 2. A place is left by acting, or when it is dropped, so those that wait go on however others end.
//! 3. Who waits takes no slot of the walk: there may be more members than slots.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::oneshot;

use crate::declaration::Declaration;
use crate::graph::Graph;
use crate::kind::GroupMember;
use crate::kinds::Kinds;
use crate::walk::Waiting;

/// The groups of the resources of one apply, by their positions.
#[derive(Debug)]
pub(crate) struct Groups(Vec<Option<Arc<Group>>>);

impl Groups {
    pub(crate) fn new(
        graph: &Graph,
        declarations: &[Declaration],
        (kinds, waiting): (&Kinds, &Arc<Waiting>),
    ) -> Self {
        let mut depths = vec![0_usize; declarations.len()];
        for node in graph.order() {
            let inputs = graph.inputs(*node).iter();
            depths[*node] = inputs.map(|input| depths[*input] + 1).max().unwrap_or_default();
        }
        let mut groups: HashMap<(&str, usize), Arc<Group>> = HashMap::new();
        let group = |(declaration, depth): (&'_ Declaration, usize)| {
            let kind = kinds.get(&declaration.kind).ok().filter(|kind| kind.is_grouping())?;
            let group = groups.entry((kind.name(), depth)).or_insert_with(|| Group::new(waiting));
            group.gathering.lock().missing += 1;
            Some(Arc::clone(group))
        };
        Self(declarations.iter().zip(depths).map(group).collect())
    }

    /// Returns the place of a resource, if it has one; to be asked once for each.
    pub(crate) fn place(&self, node: usize) -> Option<Place> {
        self.0[node].clone().map(|group| Place { group, is_left: false })
    }
}

/// Resources that may be acted on together.
#[derive(Debug)]
struct Group {
    gathering: Mutex<Gathering>,
    waiting: Arc<Waiting>,
}

#[derive(Debug, Default)]
struct Gathering {
    /// How many may still come.
    missing: usize,
    /// Those that have come, by the key of their group.
    come: BTreeMap<String, Vec<Follower>>,
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
    /// It acts for itself: acting together has failed.
    Alone,
    /// Acting together was interrupted.
    Interrupted,
}

impl Group {
    fn new(waiting: &Arc<Waiting>) -> Arc<Self> {
        Arc::new(Self { gathering: Mutex::default(), waiting: Arc::clone(waiting) })
    }
}

impl Gathering {
    /// Notes that one less may come. When none may any more, the first of each key leads the others.
    fn leave(&mut self) {
        self.missing -= 1;
        if self.missing > 0 {
            return;
        }
        for (_, come) in std::mem::take(&mut self.come) {
            let mut come = come.into_iter();
            if let Some(leader) = come.next() {
                // One that is gone leads nobody: those that it would lead are told so by that.
                drop(leader.told.send(Turn::Lead(come.collect())));
            }
        }
    }
}

/// The place of one resource in its group.
#[derive(Debug)]
pub(crate) struct Place {
    group: Arc<Group>,
    is_left: bool,
}

impl Place {
    /// Waits for the others, and returns what to do.
    pub(crate) async fn gather(mut self, key: String, member: GroupMember) -> Turn {
        let (told, turn) = oneshot::channel();
        {
            let mut gathering = self.group.gathering.lock();
            gathering.come.entry(key).or_default().push(Follower { member, told });
            gathering.leave();
        }
        self.is_left = true;
        let _waiting = self.group.waiting.begin();
        // Who leads is dropped only together with the whole apply.
        turn.await.unwrap_or(Turn::Interrupted)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        if !self.is_left {
            self.group.gathering.lock().leave();
        }
    }
}
