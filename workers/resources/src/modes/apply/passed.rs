//! What applies of one command have done, for the next one.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::fmt;
use std::sync::Arc;

use parking_lot::Mutex;

use crate::declare::declaration::Declaration;
use crate::kind::kinds::Kinds;
use crate::report::account::{Accounted, Outcome};
use crate::visit::{Changes, Visit};

/// What the applies of one command have done. If a resource is declared as before, and nothing
/// before it changes or fails, the next apply takes over how it ended. The accounts of the others
/// include what was done before. Cheap to clone; clones are of the same applies.
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
    /// The visits of each resource of any of them, with its last declaration.
    visits: BTreeMap<String, (Declaration, Visit)>,
    /// The resources whose visits the current apply has taken over.
    taken_over: BTreeSet<String>,
    has_changed_facts: bool,
}

impl Passed {
    /// Returns whether the last apply has changed a fact that a resource keeps. Other resources may
    /// be declared then.
    pub fn has_changed_facts(&self) -> bool {
        self.0.lock().has_changed_facts
    }

    /// Returns how a visit has ended, if its resource was declared alike and had its turn.
    pub(super) fn get(&self, declaration: &Declaration) -> Option<Visit> {
        let mut passes = self.0.lock();
        let (before, visit) = passes.visits.get(&declaration.name)?;
        let had_its_turn = visit.end.is_good() || matches!(visit.end, Outcome::Failed { .. });
        // What it notifies has the notification on record, also if that was left out.
        let visit = (before.is_equal(declaration) && had_its_turn).then(|| visit.clone())?;
        passes.taken_over.insert(declaration.name.clone());
        Some(visit)
    }

    /// Takes over how the visits have ended, and returns them with what was done before.
    pub(super) fn note(
        &self,
        declarations: &[Declaration],
        kinds: &Kinds,
        mut visits: Vec<Visit>,
    ) -> Vec<Visit> {
        let mut passes = self.0.lock();
        let keeps_fact =
            |it: &Declaration| kinds.get(&it.kind).is_ok_and(|kind| kind.keeps_facts());
        if passes.visits.is_empty() && !declarations.iter().any(keeps_fact) {
            // There is no next one.
            return visits;
        }
        let mut keepers = declarations.iter().zip(&visits).filter(|(it, _)| keeps_fact(it));
        passes.has_changed_facts = keepers.any(|(_, visit)| visit.changes == Changes::Yes);
        let taken_over = std::mem::take(&mut passes.taken_over);
        for now in visits.iter_mut().filter(|now| !taken_over.contains(&now.name)) {
            if let Some((_, before)) = passes.visits.get(&now.name) {
                *now = before.clone().and(now.clone());
            }
        }
        for (declaration, visit) in declarations.iter().zip(&visits) {
            let visit = Visit { changes: Changes::No, ..visit.clone() };
            passes.visits.insert(declaration.name.clone(), (declaration.clone(), visit));
        }
        visits
    }

    /// Returns the accounts of resources that are not among these any more, and that earlier
    /// applies have changed or have failed to change.
    pub(super) fn done_to_others(&self, declarations: &[Declaration]) -> Vec<Accounted> {
        let names: HashSet<_> = declarations.iter().map(|it| it.name.as_str()).collect();
        let passes = self.0.lock();
        let others = passes.visits.iter().filter(|(name, _)| !names.contains(name.as_str()));
        let is_told = |visit: &&Visit| {
            let has_acted = !visit.done.is_empty() || !visit.begun.is_empty();
            has_acted || matches!(visit.end, Outcome::Failed { .. })
        };
        let others = others.map(|(_, (_, visit))| visit).filter(is_told);
        others.map(|visit| visit.clone().accounted()).collect()
    }
}
