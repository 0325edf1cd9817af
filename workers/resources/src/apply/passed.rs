//! What applies of one command have done, for the next one.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use parking_lot::Mutex;

use crate::account::Accounted;
use crate::declaration::Declaration;
use crate::inputs::{Changes, Seen};

/// A resource that was visited.
#[derive(Debug, Clone)]
pub(crate) struct Applied {
    pub(crate) accounted: Accounted,
    pub(crate) seen: Seen,
    /// Whether it was taken over from an earlier apply.
    pub(crate) is_passed: bool,
}

/// What the applies with it have done. The next one takes over what was done to a resource that is declared as before
/// and comes after nothing that changes, and accounts for the others with what was done before. Cheap to clone; clones
/// are of the same applies.
#[derive(Clone, Default)]
pub struct Passed(Arc<Mutex<Passes>>);

impl fmt::Debug for Passed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The states hold secrets.
        f.debug_struct("Passed").finish_non_exhaustive()
    }
}

#[derive(Default)]
struct Passes {
    /// Each resource, as it was declared.
    applied: HashMap<String, (Declaration, Applied)>,
    has_changed_facts: bool,
}

impl Passed {
    /// Returns whether the last apply has changed a fact that a resource keeps. Other resources may be declared then.
    pub fn has_changed_facts(&self) -> bool {
        self.0.lock().has_changed_facts
    }

    /// Returns what was done to a resource, if it was declared alike and all was done.
    pub(crate) fn get(&self, declaration: &Declaration) -> Option<Applied> {
        let passes = self.0.lock();
        let (before, applied) = passes.applied.get(&declaration.name)?;
        let is_alike = before.notify == declaration.notify && before.is_equal(declaration);
        let is_good = applied.accounted.outcome.is_good();
        (is_alike && is_good).then(|| Applied { is_passed: true, ..applied.clone() })
    }

    /// Takes what was done to each resource, and returns it with what was done before.
    pub(crate) fn note(
        &self,
        declarations: &[Declaration],
        mut applied: Vec<Applied>,
    ) -> Vec<Applied> {
        let mut passes = self.0.lock();
        let mut keepers = declarations.iter().zip(&applied).filter(|(it, _)| keeps_fact(it));
        passes.has_changed_facts = keepers.any(|(_, it)| it.seen.changes == Changes::Yes);
        if !passes.has_changed_facts && passes.applied.is_empty() {
            // There is no next one.
            return applied;
        }
        for now in applied.iter_mut().filter(|now| !now.is_passed) {
            if let Some((_, before)) = passes.applied.get(&now.accounted.name) {
                now.accounted = before.accounted.clone().and(now.accounted.clone());
            }
        }
        let each = declarations.iter().zip(&applied).map(|(declaration, applied)| {
            let seen = Seen { changes: Changes::No, ..applied.seen.clone() };
            let applied = Applied { seen, ..applied.clone() };
            (declaration.name.clone(), (declaration.clone(), applied))
        });
        passes.applied = each.collect();
        applied
    }
}

fn keeps_fact(declaration: &Declaration) -> bool {
    declaration.claims.iter().any(|claim| claim.space == "fact" && claim.is_made())
}
