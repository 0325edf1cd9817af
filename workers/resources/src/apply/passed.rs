//! What applies of one command have done, for the next one.

use std::collections::{BTreeMap, HashSet};
use std::fmt;
use std::sync::Arc;

use parking_lot::Mutex;

use crate::account::{Accounted, Outcome};
use crate::declaration::Declaration;
use crate::inputs::{Changes, Seen};
use crate::kinds::Kinds;
use crate::schedule::{self, Ending};

/// A resource that was visited.
#[derive(Debug, Clone)]
pub(crate) struct Applied {
    pub(crate) accounted: Accounted,
    pub(crate) seen: Seen,
    /// Whether it was taken over from an earlier apply.
    pub(crate) is_passed: bool,
}

impl Applied {
    /// Returns how the visit has ended, for the schedule.
    pub(crate) fn ending(&self) -> Ending {
        Ending::new(match &self.accounted.outcome {
            Outcome::Noop => schedule::Outcome::LeftAlone,
            Outcome::Failed { .. } => schedule::Outcome::Failed,
            outcome if outcome.is_good() => schedule::Outcome::Good,
            _ => schedule::Outcome::Stopped,
        })
    }
}

/// What the applies with it have done. The next one takes over how a resource ended that is
/// declared as before and comes after nothing that changes or fails, and accounts for the others
/// with what was done before. Cheap to clone; clones are of the same applies.
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
    /// Each resource of any of them, as it was declared last.
    applied: BTreeMap<String, (Declaration, Applied)>,
    has_changed_facts: bool,
}

impl Passed {
    /// Returns whether the last apply has changed a fact that a resource keeps. Other resources may
    /// be declared then.
    pub fn has_changed_facts(&self) -> bool {
        self.0.lock().has_changed_facts
    }

    /// Returns how a resource ended, if it was declared alike and had its turn.
    pub(crate) fn get(&self, declaration: &Declaration) -> Option<Applied> {
        let passes = self.0.lock();
        let (before, applied) = passes.applied.get(&declaration.name)?;
        let outcome = &applied.accounted.outcome;
        let had_its_turn = outcome.is_good() || matches!(outcome, Outcome::Failed { .. });
        // What it notifies has the notification on record, also if that was left out.
        (before.is_equal(declaration) && had_its_turn)
            .then(|| Applied { is_passed: true, ..applied.clone() })
    }

    /// Takes how each resource ended, and returns it with what was done before.
    pub(crate) fn note(
        &self,
        declarations: &[Declaration],
        kinds: &Kinds,
        mut applied: Vec<Applied>,
    ) -> Vec<Applied> {
        let mut passes = self.0.lock();
        let keeps_fact =
            |it: &Declaration| kinds.get(&it.kind).is_ok_and(|kind| kind.keeps_facts());
        if passes.applied.is_empty() && !declarations.iter().any(keeps_fact) {
            // There is no next one.
            return applied;
        }
        let mut keepers = declarations.iter().zip(&applied).filter(|(it, _)| keeps_fact(it));
        passes.has_changed_facts = keepers.any(|(_, it)| it.seen.changes == Changes::Yes);
        for now in applied.iter_mut().filter(|now| !now.is_passed) {
            if let Some((_, before)) = passes.applied.get(&now.accounted.name) {
                now.accounted = before.accounted.clone().and(now.accounted.clone());
            }
        }
        for (declaration, applied) in declarations.iter().zip(&applied) {
            let seen = Seen { changes: Changes::No, ..applied.seen.clone() };
            let applied = Applied { seen, ..applied.clone() };
            passes.applied.insert(declaration.name.clone(), (declaration.clone(), applied));
        }
        applied
    }

    /// Returns the accounts of resources that are not among these any more, and that earlier
    /// applies have changed or have failed to change.
    pub(crate) fn done_to_others(&self, declarations: &[Declaration]) -> Vec<Accounted> {
        let names: HashSet<_> = declarations.iter().map(|it| it.name.as_str()).collect();
        let passes = self.0.lock();
        let others = passes.applied.iter().filter(|(name, _)| !names.contains(name.as_str()));
        let others = others.map(|(_, (_, applied))| &applied.accounted);
        let is_told = |accounted: &&Accounted| {
            let has_acted = !accounted.done.is_empty() || !accounted.begun.is_empty();
            has_acted || matches!(accounted.outcome, Outcome::Failed { .. })
        };
        others.filter(is_told).cloned().collect()
    }
}
