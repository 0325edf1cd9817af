//! The owners of facts that the agent has written.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::difference::Difference;
use crate::operation::Operation;
use crate::pointer::Pointer;
use crate::tree::Tree;

/// The facts that the agent has written, each with its owner. All other facts are a user's. Cheap to clone.
///
/// No owned fact is within another one.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Owners(Arc<BTreeMap<Pointer, String>>);

/// The owners that a change has set, or has removed.
pub type OwnerChanges = BTreeMap<Pointer, Option<String>>;

/// A fact and its owner: a part of the agent, or a user whose fact the agent may not overwrite.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Owned {
    /// The path of the fact.
    pub path: Pointer,
    /// The owner of the fact.
    pub owner: String,
}

impl FromIterator<(Pointer, String)> for Owners {
    fn from_iter<I: IntoIterator<Item = (Pointer, String)>>(owned: I) -> Self {
        Self(Arc::new(owned.into_iter().collect()))
    }
}

impl Owners {
    /// Returns the owned facts with their owners, by path.
    pub fn iter(&self) -> impl Iterator<Item = (&Pointer, &str)> {
        self.0.iter().map(|(path, owner)| (path, owner.as_str()))
    }

    /// Returns the owned facts at a path, above it and below it.
    pub fn touching(&self, path: &Pointer) -> impl Iterator<Item = (&Pointer, &str)> {
        let above =
            (0..path.segments().len()).filter_map(|end| self.0.get_key_value(&path.up_to(end)));
        above.chain(self.within(path)).map(|(path, owner)| (path, owner.as_str()))
    }

    fn within(&self, path: &Pointer) -> impl Iterator<Item = (&Pointer, &String)> {
        self.0.range(path..).take_while(move |(at, _)| at.is_within(path))
    }

    /// Records the owner of the written facts. Refuses operations on facts of other owners, and above or below them:
    /// returns the first such fact.
    pub(crate) fn own(
        &mut self,
        (operations, owner): (&[Operation], &str),
        stored: &Tree,
    ) -> Result<OwnerChanges, Owned> {
        let mut changes = OwnerChanges::new();
        let writes = operations.iter().filter(|it| !matches!(it, Operation::Test(..)));
        for operation in writes {
            let path = operation.path();
            let is_own = self.touching(path).any(|(at, of)| of == owner && path.is_within(at));
            let other = self.touching(path).find(|(_, of)| *of != owner);
            let other = match other {
                Some((at, of)) => Some(Owned { path: at.clone(), owner: of.to_owned() }),
                // An existing fact without an owner in the agent belongs to a user, even if its value is the same.
                None if !is_own && stored.at(path).is_some() => {
                    Some(Owned { path: path.clone(), owner: "a user".to_owned() })
                }
                None => None,
            };
            if let Some(other) = other {
                return Err(other);
            }
            let is_removed = matches!(operation, Operation::Delete(_));
            if is_own && !is_removed {
                continue;
            }
            changes.extend(self.within(path).map(|(at, _)| (at.clone(), None)));
            if !is_removed {
                changes.insert(path.clone(), Some(owner.to_owned()));
            }
            self.change(&changes);
        }
        Ok(changes)
    }

    /// Removes the owner of the agent's facts that a user overwrites, and returns these facts. Refuses facts outside of
    /// `overwrites`: returns them.
    pub(crate) fn overwrite(
        &mut self,
        differences: &[Difference],
        overwrites: &[Pointer],
    ) -> Result<Vec<Owned>, Vec<Owned>> {
        let changed = differences.iter().flat_map(|it| self.touching(&it.path));
        let changed: BTreeMap<_, _> = changed.collect();
        let changed = changed.into_iter();
        let changed =
            changed.map(|(path, owner)| Owned { path: path.clone(), owner: owner.to_owned() });
        let is_meant = |it: &Owned| overwrites.iter().any(|path| it.path.is_within(path));
        let (meant, refused): (Vec<_>, Vec<_>) = changed.partition(is_meant);
        if !refused.is_empty() {
            return Err(refused);
        }
        self.change(&meant.iter().map(|it| (it.path.clone(), None)).collect());
        Ok(meant)
    }

    fn change(&mut self, changes: &OwnerChanges) {
        if changes.is_empty() {
            return;
        }
        let owned = Arc::make_mut(&mut self.0);
        for (path, owner) in changes {
            match owner {
                Some(owner) => owned.insert(path.clone(), owner.clone()),
                None => owned.remove(path),
            };
        }
    }
}
