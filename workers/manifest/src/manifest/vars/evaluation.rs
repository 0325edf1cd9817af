//! The evaluation of one variable after another.
//!
//! Each variable comes after those that it uses; the caller sees to that. A variable that uses a wrong one is wrong
//! too, and is not evaluated, so each problem is reported once.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::slice;
use std::sync::Arc;

use minijinja::Value;

use crate::manifest::check;
use crate::manifest::document::Written;
use crate::manifest::expression::{Budget, Names, from_json};
use crate::manifest::problem::{FactProblems, Problem, Problems, quoted};
use crate::manifest::secrets::Filling;
use crate::manifest::text::{Findings, Texts, Trouble};
use crate::manifest::used::Used;
use crate::manifest::vars::collected::Var;
use crate::manifest::vars::late::LateFacts;

/// The variables of a manifest, evaluated.
pub(crate) type Vars = Arc<BTreeMap<String, Value>>;

/// A variable whose expressions were checked.
pub(super) struct CheckedVar {
    pub(super) name: String,
    pub(super) var: Var,
    /// The names that its expressions use.
    pub(super) used: Used,
    /// Whether its expressions are wrong in themselves. That was reported.
    pub(super) is_wrong: bool,
}

/// The variables that are evaluated so far.
pub(super) struct Evaluation {
    pub(super) names: Names,
    pub(super) fact_problems: FactProblems,
    pub(super) late: LateFacts,
    pub(super) budget: Budget,
    pub(super) wrong: BTreeSet<String>,
    pub(super) deferred: BTreeMap<String, String>,
    /// The files that secrets were read from, by the variable that they are in.
    pub(super) files: BTreeMap<String, Vec<PathBuf>>,
    pub(super) of_facts: BTreeSet<String>,
}

impl Evaluation {
    /// Returns whether a variable holds a secret.
    pub(super) fn holds_secret(&self, variable: &CheckedVar) -> bool {
        self.names.sensitive.used(slice::from_ref(&variable.name)).is_some()
    }

    /// Evaluates a variable that was evaluated before.
    pub(super) fn again(&mut self, variable: &CheckedVar) {
        self.wrong.remove(&variable.name);
        self.deferred.remove(&variable.name);
        self.names.unknown_vars.remove(&variable.name);
        self.add(variable, &mut Problems::default());
    }

    /// Evaluates a variable.
    pub(super) fn add(&mut self, variable: &CheckedVar, problems: &mut Problems) {
        let CheckedVar { name, var, used, is_wrong } = variable;
        let follows_facts = used.follows_facts(&self.of_facts);
        if follows_facts {
            self.of_facts.insert(name.clone());
        }
        let is_late = self.late.note(name, used);
        let mut deferred = Problems::default();
        let is_deferred = is_late || self.fact_problems == FactProblems::Deferred && follows_facts;
        let found = if is_deferred { &mut deferred } else { problems };
        let mut is_wrong = *is_wrong || used.uses_any(&self.wrong) || self.budget.is_overdrawn();
        let before = found.count();
        let value = match var {
            Var::Set(value) => {
                let text = value.as_str().unwrap_or_default();
                self.names.sensitive.note(name, &text.into());
                value.clone()
            }
            Var::Written(_) if is_wrong => Value::from(()),
            Var::Written(written) => self.value(name, written, found),
        };
        is_wrong |= found.count() > before;
        if is_wrong {
            self.wrong.insert(name.clone());
        }
        if is_wrong && is_deferred {
            let of_used = used.vars.iter().find_map(|name| {
                let why = self.deferred.get(name)?;
                Some(format!("variable {} is wrong: {why}", quoted(name)))
            });
            let why = deferred.first().map(Problem::brief).or(of_used);
            let why = why.unwrap_or_else(|| "it cannot be evaluated".to_owned());
            self.deferred.insert(name.clone(), why);
        }
        Arc::make_mut(&mut self.names.vars).insert(name.clone(), value);
    }

    fn value(&mut self, name: &str, written: &Written, problems: &mut Problems) -> Value {
        Arc::make_mut(&mut self.names.sensitive).add_derived(name, &written.node);
        let mut texts = Texts::new(&self.names, &mut self.budget);
        let value = texts.node(&written.node);
        let Findings { troubles, unknown } = texts.finish();
        for Trouble { span, text, failure } in troubles {
            check::report(&written.source, (&text, &span), failure, problems);
        }
        if !unknown.is_empty() {
            self.names.unknown_vars.insert(name.to_owned(), unknown);
        }
        let (source, mut files) = (&*written.source, Vec::new());
        let mut filling = Filling { source, problems, files: &mut files };
        let value = filling.fill(&written.node, value);
        if !files.is_empty() {
            self.files.insert(name.to_owned(), files);
        }
        self.names.sensitive.note(name, &value);
        from_json(&value)
    }
}
