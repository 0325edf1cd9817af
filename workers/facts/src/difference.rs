//! Differences between two trees, and digests of trees.

use std::collections::BTreeSet;
use std::fmt;

use sha2::{Digest as _, Sha256};

use crate::pointer::Pointer;
use crate::tree::{Node, Tree};

/// A part of the facts that differs between two states.
///
/// A difference is as large as possible: a new map is one difference, not one for each of its members.
#[derive(Debug, Clone, PartialEq)]
pub struct Difference {
    /// The path of the part.
    pub path: Pointer,
    /// The facts before; none if there were none.
    pub before: Option<Tree>,
    /// The facts after; none if there are none.
    pub after: Option<Tree>,
}

/// Returns the differences between two trees, sorted by path. Skips the parts that the trees share.
pub fn difference(before: &Tree, after: &Tree) -> Vec<Difference> {
    let mut differences = Vec::new();
    compare(&Pointer::root(), Some(&before.0), Some(&after.0), &mut differences);
    differences.sort_by(|one, other| one.path.cmp(&other.path));
    differences
}

/// Like [`difference`], for two trees that differ only at or below these paths. The time depends on the number of
/// facts at these paths, not on the size of the trees.
pub(crate) fn difference_at<'a>(
    before: &Tree,
    after: &Tree,
    paths: impl Iterator<Item = &'a Pointer>,
) -> Vec<Difference> {
    let mut differences = Vec::new();
    let mut last: Option<Pointer> = None;
    for path in paths.collect::<BTreeSet<_>>() {
        // The paths are sorted: the paths within a path follow it directly.
        if last.as_ref().is_some_and(|last| path.is_within(last)) {
            continue;
        }
        let (mut at, mut sides) = (Pointer::root(), (&before.0, &after.0));
        let mut found = (Some(sides.0), Some(sides.1));
        for segment in path.parts() {
            let (Node::Map(before), Node::Map(after)) = sides else { break };
            at = at.join(segment);
            found = (before.get(segment), after.get(segment));
            let (Some(before), Some(after)) = found else { break };
            sides = (before, after);
        }
        compare(&at, found.0, found.1, &mut differences);
        // Further paths may lead into the same list, or into the same new map.
        last = Some(at);
    }
    differences
}

fn compare(
    path: &Pointer,
    before: Option<&Node>,
    after: Option<&Node>,
    differences: &mut Vec<Difference>,
) {
    match (before, after) {
        (Some(before), Some(after)) if before.is_same(after) => {}
        (Some(Node::Map(before)), Some(Node::Map(after))) => {
            for (name, node) in &**before {
                compare_member((path, name), Some(node), after.get(name), differences);
            }
            for (name, node) in after.iter().filter(|(name, _)| !before.contains_key(*name)) {
                compare_member((path, name), None, Some(node), differences);
            }
        }
        (before, after) if before == after => {}
        (before, after) => {
            let tree = |node: &Node| Tree(node.clone());
            let (before, after) = (before.map(tree), after.map(tree));
            differences.push(Difference { path: path.clone(), before, after });
        }
    }
}

/// Compares a member. Builds its path only if the two sides are not the same node.
fn compare_member(
    (path, name): (&Pointer, &str),
    before: Option<&Node>,
    after: Option<&Node>,
    differences: &mut Vec<Difference>,
) {
    if !matches!((before, after), (Some(before), Some(after)) if before.is_same(after)) {
        compare(&path.join(name), before, after, differences);
    }
}

/// The digest of a tree: equal trees have equal digests.
///
/// It is the sum of the SHA-256 of all values and maps, each hashed with its path, in four lanes of 64 bits that
/// wrap around. So the time for an update depends only on its own facts. The digest finds damage and tells states
/// apart. It does not protect against an attacker who chooses the values.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Digest([u64; 4]);

impl Digest {
    /// Returns the digest of a tree.
    pub fn of(tree: &Tree) -> Self {
        let mut digest = Self::default();
        digest.count(&Pointer::root(), &tree.0, u64::wrapping_add);
        digest
    }

    /// Returns the digest of the tree after these differences.
    #[must_use]
    pub(crate) fn after(mut self, differences: &[Difference]) -> Self {
        for Difference { path, before, after } in differences {
            for (tree, with) in [(before, u64::wrapping_sub as Lane), (after, u64::wrapping_add)] {
                if let Some(tree) = tree {
                    self.count(path, &tree.0, with);
                }
            }
        }
        self
    }

    /// Adds or subtracts the hash of each value and each map in a tree.
    fn count(&mut self, path: &Pointer, node: &Node, with: Lane) {
        let mut text = Vec::new();
        let add = &mut |path: &str, node: &Node| {
            text.clear();
            match node {
                Node::Leaf(value) => serde_json::to_writer(&mut text, &**value)?,
                Node::Map(_) => text.extend_from_slice(b"{}"),
            }
            for (lane, hash) in self.0.iter_mut().zip(hash(path, &text)) {
                *lane = with(*lane, hash);
            }
            Ok::<_, serde_json::Error>(())
        };
        node.each(&mut path.text(), add).expect("facts are JSON");
    }

    /// Reads a digest as [`Display`](fmt::Display) writes it.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let mut digest = Self::default();
        for (at, lane) in digest.0.iter_mut().enumerate() {
            *lane = u64::from_str_radix(text.get(at * 16..at * 16 + 16)?, 16).ok()?;
        }
        (text.len() == 64).then_some(digest)
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|lane| write!(f, "{lane:016x}"))
    }
}

/// The operation on one lane.
type Lane = fn(u64, u64) -> u64;

fn hash(path: &str, value: &[u8]) -> [u64; 4] {
    let mut hasher = Sha256::new();
    hasher.update(path);
    hasher.update([0]);
    hasher.update(value);
    let hash: [u8; 32] = hasher.finalize().into();
    let mut lanes = [0; 4];
    for (lane, bytes) in lanes.iter_mut().zip(hash.chunks_exact(8)) {
        *lane = u64::from_le_bytes(bytes.try_into().unwrap_or_default());
    }
    lanes
}
