//! The identity of what a resource keeps, which stays the same when the resource is renamed.

use sha2::{Digest as _, Sha256};

use crate::declare::claim::{Claim, Role};

/// What a resource keeps, whatever the resource is called: its digest, in hexadecimal.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct KeptThing(String);

impl KeptThing {
    /// Returns what a resource with these claims keeps. If it keeps nothing that others could name,
    /// that is the resource itself.
    pub(crate) fn of((kind, name): (&str, &str), claims: &[Claim]) -> Self {
        let kept = claims.iter().filter(|claim| matches!(claim.role, Role::Keeps { .. }));
        let mut kept: Vec<_> = kept.map(|claim| (&*claim.space, &*claim.name)).collect();
        kept.sort_unstable();
        kept.dedup();
        if kept.is_empty() {
            kept.push((kind, name));
        }
        let mut hasher = Sha256::new();
        for part in kept.into_iter().flat_map(|(space, name)| [space, name]) {
            // With its length, so that no text runs into the next.
            hasher.update((part.len() as u64).to_le_bytes());
            hasher.update(part);
        }
        Self(base16ct::lower::encode_string(&hasher.finalize()))
    }

    /// Returns the thing whose digest is the name of a record.
    pub(crate) fn named(name: &str) -> Self {
        Self(name.to_owned())
    }

    pub(crate) fn name(&self) -> &str {
        &self.0
    }
}
