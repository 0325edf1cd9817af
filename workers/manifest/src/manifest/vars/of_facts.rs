//! The variables that follow from facts, evaluated again without a load.
//!
//! A change of facts does not change what they use, so the order of the load and what it has checked still hold. A
//! variable that holds a secret is not evaluated again, because only a load finds which of its values are secrets.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::manifest::expression::{Budget, Names};
use crate::manifest::kept_facts::Path;
use crate::manifest::problem::FactProblems;
use crate::manifest::used::Used;
use crate::manifest::vars::collected::Var;
use crate::manifest::vars::evaluation::{CheckedVar, Evaluation, Vars};
use crate::manifest::vars::late::LateFacts;

/// The variables that follow from facts, each after those that it uses.
#[derive(Default)]
pub(crate) struct VarsOfFacts(pub(super) Vec<CheckedVar>);

/// The variables after a change of facts.
pub(crate) struct RenewedVars {
    pub(crate) vars: Vars,
    /// The variables that are wrong, each with what is wrong.
    pub(crate) wrong: BTreeMap<String, String>,
    /// The variables that were evaluated again.
    pub(crate) evaluated: BTreeSet<String>,
}

impl VarsOfFacts {
    /// Evaluates the variables again that use some facts, directly or by way of another variable,
    /// and returns the names with them. A variable that holds a secret stays as it is.
    pub(crate) fn again(&self, names: Names, facts: &BTreeSet<Path>) -> Names {
        let (wrong, following) = (BTreeMap::clone(&names.wrong), self.following(facts));
        let mut evaluation = self.evaluation(names, wrong);
        for variable in &self.0 {
            let name = &variable.name;
            let is_seen = following.contains(name) && evaluation.names.vars.contains_key(name);
            if is_seen && !evaluation.holds_secret(variable) {
                evaluation.again(variable);
            }
        }
        let Evaluation { names, deferred, .. } = evaluation;
        Names { wrong: Arc::new(deferred), ..names }
    }

    /// Returns the names of those that use some facts, directly or by way of another one.
    pub(crate) fn following(&self, facts: &BTreeSet<Path>) -> BTreeSet<String> {
        let mut names = BTreeSet::new();
        for CheckedVar { name, used, .. } in &self.0 {
            if used.uses_facts(facts) || used.uses_any(&names) {
                names.insert(name.clone());
            }
        }
        names
    }

    /// Returns the facts that are used, directly or by way of these variables.
    pub(crate) fn behind(&self, used: &Used) -> BTreeSet<Path> {
        let (mut facts, mut vars) = (used.facts.clone(), used.vars.clone());
        let mut are_all = used.all_vars;
        // Each comes after those that it uses.
        for CheckedVar { name, used, .. } in self.0.iter().rev() {
            if are_all || vars.contains(name) {
                facts.extend(used.facts.iter().cloned());
                vars.extend(used.vars.iter().cloned());
                are_all |= used.all_vars;
            }
        }
        facts
    }

    /// Returns whether other variables are written alike.
    pub(crate) fn is_alike(&self, other: &Self) -> bool {
        let is_alike = |one: &Var, other: &Var| match (one, other) {
            (Var::Written(one), Var::Written(other)) => one.node == other.node,
            (Var::Set(one), Var::Set(other)) => one == other,
            _ => false,
        };
        let mut pairs = self.0.iter().zip(&other.0);
        self.0.len() == other.0.len()
            && pairs.all(|(one, other)| one.name == other.name && is_alike(&one.var, &other.var))
    }

    /// Returns the variables before any is evaluated again.
    fn evaluation(&self, names: Names, wrong: BTreeMap<String, String>) -> Evaluation {
        Evaluation {
            // A wrong variable may be right after this evaluation.
            names: Names { wrong: Arc::default(), ..names },
            fact_problems: FactProblems::Deferred,
            late: LateFacts::default(),
            budget: Budget::new(),
            wrong: wrong.keys().cloned().collect(),
            deferred: wrong,
            files: BTreeMap::new(),
            of_facts: self.0.iter().map(|variable| variable.name.clone()).collect(),
        }
    }

    /// Evaluates the variables again that use changed facts, directly or by way of another
    /// variable. `names` are the names that they see, with the facts after the change. `wrong` are
    /// the variables that were wrong before. Returns none if one of the variables to evaluate holds
    /// a secret: only a load finds the new secret.
    pub(crate) fn renew(
        &self,
        (names, wrong): (Names, &BTreeMap<String, String>),
        changed: &BTreeSet<Vec<String>>,
    ) -> Option<RenewedVars> {
        let mut evaluation = self.evaluation(names, wrong.clone());
        let mut evaluated = BTreeSet::new();
        for variable in &self.0 {
            let CheckedVar { name, used, .. } = variable;
            if !used.uses_facts(changed) && !used.uses_any(&evaluated) {
                continue;
            }
            if evaluation.holds_secret(variable) {
                return None;
            }
            evaluation.again(variable);
            evaluated.insert(name.clone());
        }
        let Evaluation { names, deferred, .. } = evaluation;
        Some(RenewedVars { vars: names.vars, wrong: deferred, evaluated })
    }
}
