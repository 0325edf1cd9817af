//! Facts that resources may keep, and the variables that follow from them.
//!
//! Such a fact may be known only after apply. So what is wrong with a variable because of it is no problem until the
//! variable is used.

use std::collections::BTreeSet;

use crate::manifest::kept_facts::Path;
use crate::manifest::used::Used;

/// Facts that resources may keep, and what follows from them.
#[derive(Debug, Default)]
pub(super) struct LateFacts {
    /// The paths of these facts.
    paths: BTreeSet<Path>,
    /// The variables that follow from them.
    vars: BTreeSet<String>,
}

impl LateFacts {
    /// Returns the facts with these paths, from which no variable follows.
    pub(super) fn of(paths: BTreeSet<Path>) -> Self {
        Self { paths, vars: BTreeSet::new() }
    }

    /// Notes the names that a variable uses. Returns whether the variable follows from any of these
    /// facts.
    pub(super) fn note(&mut self, variable: &str, used: &Used) -> bool {
        let is_late = self.are_used(used);
        if is_late {
            self.vars.insert(variable.to_owned());
        }
        is_late
    }

    /// Returns whether any of them is used, or a variable that follows from one.
    pub(super) fn are_used(&self, used: &Used) -> bool {
        used.uses_facts(&self.paths) || used.uses_any(&self.vars)
    }
}
