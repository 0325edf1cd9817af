//! Names and their nodes.

use hashbrown::HashMap;

use super::EventLoop;
use super::slot::Slot;
use crate::change::{Action, ChangeError};
use crate::machine::NodeId;
use crate::vocabulary::name::Text;

/// Among more names than these no near one is looked for: an error must stay cheap.
const NEAREST_AMONG: usize = 2_000;

/// Nor if to compare the names takes more than this, each as many steps as the product of the two
/// lengths: about a millisecond.
const NEAREST_STEPS: usize = 400_000;

/// The names in use, each with its node. Hashed with a key that each engine draws for itself: names
/// may come from outside.
pub(super) type Names = HashMap<Text, NodeId, foldhash::fast::RandomState>;

impl EventLoop {
    /// Returns the node of a name, if it is in use.
    pub(super) fn find(&self, name: &str) -> Option<NodeId> {
        self.names.get(name).copied()
    }

    /// Returns the node of a name, adding it if it is new.
    pub(super) fn intern(&mut self, name: &Text) -> NodeId {
        if let Some(node) = self.names.get(name.as_str()) {
            return *node;
        }
        let node = self.machine.add();
        if node.index() == self.slots.len() {
            self.slots.push_with(Slot::default);
        }
        self.slots[node.index()].name = Some(name.clone());
        self.names.insert(name.clone(), node);
        node
    }

    pub(super) fn not_installed(&self, node: NodeId, action: &Action) -> ChangeError {
        let name = self.slots[node.index()].name().as_str();
        let action = action.verb();
        ChangeError::NotInstalled { action, name: name.to_owned(), nearest: self.nearest(name) }
    }

    /// Returns the installed name that is most like this one, if any is much like it.
    pub(super) fn nearest(&self, name: &str) -> Option<String> {
        if self.names.len() > NEAREST_AMONG {
            return None;
        }
        let bound = name.len().max(3) / 3;
        let installed = self.names.values().filter(|node| self.machine.view(**node).is_installed);
        let others = installed.map(|node| self.slots[node.index()].name().as_str());
        // Each letter that one of them has more is a step from one to the other.
        let others: Vec<_> =
            others.filter(|other| other.len().abs_diff(name.len()) <= bound).collect();
        if others.iter().map(|other| name.len() * other.len()).sum::<usize>() > NEAREST_STEPS {
            return None;
        }
        let scored = others.iter().map(|other| (strsim::osa_distance(name, other), *other));
        let (distance, nearest) = scored.min()?;
        // A name of one letter is like no other.
        let is_like = distance <= bound && distance < name.len();
        is_like.then(|| nearest.to_owned())
    }
}
