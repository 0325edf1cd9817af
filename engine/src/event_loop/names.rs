//! Names and their nodes.

use std::hash::BuildHasher;
use std::mem;

use hashbrown::HashTable;

use super::EventLoop;
use super::slot::Slot;
use crate::change::{Action, ChangeError};
use crate::chunks::Chunks;
use crate::machine::NodeId;
use crate::name::Text;

/// Among more names than these no near one is looked for: an error must stay cheap.
const NEAREST_AMONG: usize = 2_000;

/// Nor if to compare the names takes more than this, each as many steps as the product of the two
/// lengths: about a millisecond.
const NEAREST_STEPS: usize = 400_000;

/// The names in use, each with its node.
#[derive(Default)]
pub(super) struct Names {
    table: HashTable<Entry>,
    /// Keyed anew for each engine: names may come from outside.
    hasher: foldhash::fast::RandomState,
}

/// A node, and a digest of its name: most names are told apart, and all are moved when the table
/// grows, without a look at them.
struct Entry {
    digest: u32,
    node: NodeId,
}

impl Entry {
    /// Spreads a digest over the bits that the table uses.
    fn hash(digest: u32) -> u64 {
        // The odd number next to 2^64 over the golden ratio (Knuth, volume 3, section 6.4).
        u64::from(digest).wrapping_mul(0x9e37_79b9_7f4a_7c15)
    }
}

impl Names {
    fn digest(&self, name: &str) -> u32 {
        let hash = self.hasher.hash_one(name);
        u32::try_from(hash >> 32).expect("half of 64 bits")
    }

    pub(super) fn find(&self, slots: &Chunks<Slot>, name: &str) -> Option<NodeId> {
        self.find_by(self.digest(name), slots, name)
    }

    fn find_by(&self, digest: u32, slots: &Chunks<Slot>, name: &str) -> Option<NodeId> {
        let is_it = |entry: &Entry| {
            entry.digest == digest && slots[entry.node.index()].name().as_str() == name
        };
        self.table.find(Entry::hash(digest), is_it).map(|entry| entry.node)
    }

    fn insert(&mut self, digest: u32, node: NodeId) {
        self.table.insert_unique(Entry::hash(digest), Entry { digest, node }, |entry| {
            Entry::hash(entry.digest)
        });
    }

    pub(super) fn remove(&mut self, name: &str, node: NodeId) {
        let hash = Entry::hash(self.digest(name));
        if let Ok(entry) = self.table.find_entry(hash, |other| other.node == node) {
            entry.remove();
        }
    }

    pub(super) fn reserve(&mut self, more: usize) {
        self.table.reserve(more, |entry| Entry::hash(entry.digest));
    }

    pub(super) fn len(&self) -> usize {
        self.table.len()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = NodeId> {
        self.table.iter().map(|entry| entry.node)
    }
}

impl EventLoop {
    /// Returns the node of a name, adding it if it is new.
    pub(super) fn intern(&mut self, name: &Text) -> NodeId {
        let digest = self.names.digest(name.as_str());
        let found = self.names.find_by(digest, &self.slots, name.as_str());
        found.unwrap_or_else(|| self.add_name(digest, name.clone()))
    }

    /// Returns the node of a name, adding it if it is new; the text is then taken.
    pub(super) fn intern_taking(&mut self, name: &mut Text) -> NodeId {
        let digest = self.names.digest(name.as_str());
        let found = self.names.find_by(digest, &self.slots, name.as_str());
        found.unwrap_or_else(|| self.add_name(digest, mem::take(name)))
    }

    fn add_name(&mut self, digest: u32, name: Text) -> NodeId {
        let node = self.machine.add();
        if node.index() == self.slots.len() {
            self.slots.push_with(Slot::default);
        }
        self.slots[node.index()].name = Some(name);
        self.names.insert(digest, node);
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
        let installed = self.names.iter().filter(|node| self.machine.view(*node).is_installed);
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
