//! The families that workers follow. Each family that is in use is a name of its own, which is its
//! pattern. The machine knows it as a set, and every other name of the family as a member, also
//! before anything is installed there.

use super::registry::Registry;
use crate::machine::NodeId;
use crate::vocabulary::family::is_pattern;
use crate::vocabulary::live_set::{Followed, Members};
use crate::vocabulary::value::{Kind, Value};

impl Registry {
    /// Makes a new name a member of the sets that it belongs to. A new set takes in all names that
    /// belong to it.
    pub(super) fn join_sets(&mut self, node: NodeId) {
        let Self { machine, slots, sets, names, .. } = self;
        let name = slots[node].name();
        if let Some(beginning) = name.strip_suffix('*') {
            let is_member = |other: &NodeId| {
                let other = slots[*other].name();
                other.starts_with(beginning) && !is_pattern(other)
            };
            let mut members: Vec<_> = names.nodes().filter(is_member).collect();
            // The order of a hash table is another one in each run.
            members.sort_unstable();
            members.into_iter().for_each(|member| machine.join(node, member));
            let at = sets.partition_point(|(other, _)| other.as_str() < beginning);
            sets.insert(at, (beginning.into(), node));
            return;
        }
        for length in 1..=name.len() {
            let beginning = &name.as_str()[..length];
            if let Ok(at) = sets.binary_search_by(|(other, _)| other.as_str().cmp(beginning)) {
                machine.join(sets[at].1, node);
            }
        }
    }

    /// Follows the values of a set's members.
    pub(super) fn follow_set(&mut self, set: NodeId, kind: &'static Kind) -> Followed {
        let sets = self.slots[set].extras().map_or(&[][..], |extras| &extras.sets);
        if let Some((_, members)) = sets.iter().find(|(followed, _)| followed.is_same(kind)) {
            return members.follow();
        }
        let nodes = self.machine.members(set).filter(|node| !self.slots[*node].is_source);
        let members = Members::new(nodes.filter_map(|node| {
            let value = self.slots[node].value(kind.id())?;
            Some((self.member(set, node).into(), value))
        }));
        let followed = members.follow();
        self.slots[set].extras_mut().sets.push((kind, members));
        followed
    }

    /// Returns what a name is called in a set.
    fn member(&self, set: NodeId, node: NodeId) -> &str {
        let beginning = self.slots[set].name().len() - 1;
        &self.slots[node].name().as_str()[beginning..]
    }

    /// Shows the followers of sets what a name offers now: its value of one type, or of all.
    /// Returns the replaced values that must not be dropped in the loop.
    pub(super) fn show_in_sets(&self, node: NodeId, only: Option<&Kind>) -> Vec<Value> {
        let mut unseen = Vec::new();
        if self.slots[node].is_source {
            return unseen;
        }
        for set in self.machine.sets(node) {
            let Some(extras) = self.slots[*set].extras() else { continue };
            for (kind, members) in &extras.sets {
                if only.is_none_or(|only| only.is_same(kind)) {
                    let value = self.slots[node].value(kind.id());
                    let before = members.put(self.member(*set, node), value);
                    unseen.extend(before.filter(|_| !kind.is_plain()));
                }
            }
        }
        unseen
    }
}
