//! Three-way merges.

use std::collections::BTreeSet;

use crate::pointer::Pointer;
use crate::tree::{Members, Node, Tree};

/// A fact that a document and the stored facts have both changed, to different values.
#[derive(Debug, Clone, PartialEq)]
pub struct Conflict {
    /// The path of the fact.
    pub path: Pointer,
    /// The facts in the last document; none if there were none.
    pub base: Option<Tree>,
    /// The facts in the new document; none if there are none.
    pub document: Option<Tree>,
    /// The stored facts; none if there are none.
    pub stored: Option<Tree>,
}

/// Applies the changes from `base` to `document` to `stored`. A fact that both `document` and `stored` have changed
/// is a conflict, unless both have the same new value.
///
/// # Errors
///
/// All conflicts.
pub(crate) fn merge(base: &Tree, document: &Tree, stored: &Tree) -> Result<Tree, Vec<Conflict>> {
    let mut conflicts = Vec::new();
    let sides = Sides { base: Some(&base.0), document: Some(&document.0), stored: Some(&stored.0) };
    let merged = sides.merge(&Pointer::root(), &mut conflicts);
    match merged {
        Some(merged) if conflicts.is_empty() => Ok(Tree(merged)),
        _ => Err(conflicts),
    }
}

#[derive(Clone, Copy)]
struct Sides<'a> {
    base: Option<&'a Node>,
    document: Option<&'a Node>,
    stored: Option<&'a Node>,
}

impl Sides<'_> {
    fn merge(self, path: &Pointer, conflicts: &mut Vec<Conflict>) -> Option<Node> {
        let Self { base, document, stored } = self;
        if document == base || document == stored {
            return stored.cloned();
        }
        if stored == base {
            return document.cloned();
        }
        if let (Some(Node::Map(document)), Some(Node::Map(stored))) = (document, stored) {
            let none = Members::new();
            let base = match base {
                Some(Node::Map(base)) => base,
                _ => &none,
            };
            let names: BTreeSet<_> =
                base.keys().chain(document.keys()).chain(stored.keys()).collect();
            let mut merged = Members::new();
            for name in names {
                let sides = Sides {
                    base: base.get(name),
                    document: document.get(name),
                    stored: stored.get(name),
                };
                if let Some(node) = sides.merge(&path.join(name), conflicts) {
                    merged.insert(name.clone(), node);
                }
            }
            return Some(Node::Map(merged.into()));
        }
        let tree = |node: Option<&Node>| node.map(|node| Tree(node.clone()));
        let (base, document) = (tree(base), tree(document));
        conflicts.push(Conflict { path: path.clone(), base, document, stored: tree(stored) });
        stored.cloned()
    }
}
