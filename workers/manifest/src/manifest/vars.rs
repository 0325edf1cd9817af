//! The variables of a manifest: checked, ordered and evaluated.
//!
//! The expressions of all are checked before any is evaluated, which also finds what each uses. If variables use each
//! other in a circle, none is evaluated: all are null, and wrong.

mod collected;
mod evaluation;
mod late;
mod of_facts;
mod outside;

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::path::PathBuf;
use std::sync::Arc;

use crankcase_resources::OnChange;
use crankcase_resources::front::{Edges, Order, circle};
use indexmap::IndexMap;
use minijinja::Value;

use crate::manifest::bounds::Bounds;
use crate::manifest::check::{self, Usable};
use crate::manifest::document::Written;
use crate::manifest::expression::{Budget, Names, from_json};
use crate::manifest::kept_facts::Path;
use crate::manifest::problem::Problems;
use crate::manifest::sensitive::Sensitive;
use crate::manifest::used::Used;
use crate::manifest::vars::collected::{Var, collect};
use crate::manifest::vars::evaluation::{CheckedVar, Evaluation};
use crate::manifest::vars::late::LateFacts;

pub(crate) use crate::manifest::vars::evaluation::Vars;
pub(crate) use crate::manifest::vars::of_facts::{RenewedVars, VarsOfFacts};
pub(crate) use crate::manifest::vars::outside::Outside;
pub use crate::manifest::vars::outside::Overrides;

/// The variables after their evaluation.
#[derive(Default)]
pub(crate) struct Evaluated {
    pub(crate) vars: Vars,
    /// The variables that are wrong or use a wrong one; they are null.
    wrong: BTreeSet<String>,
    /// Other wrong variables, each with what is wrong. That is no problem until the variable is used.
    pub(crate) deferred: Arc<BTreeMap<String, String>>,
    pub(crate) sensitive: Arc<Sensitive>,
    /// The files that secrets were read from, by the variable that they are in.
    pub(crate) files: BTreeMap<String, Vec<PathBuf>>,
    /// The names that the expressions of each variable use.
    pub(crate) uses: BTreeMap<String, Used>,
    /// The variables that follow from facts.
    of_facts: BTreeSet<String>,
    late: LateFacts,
    /// The variables that follow from facts, to be evaluated again.
    pub(crate) vars_of_facts: Arc<VarsOfFacts>,
}

impl Evaluated {
    /// Returns the variables as checks of expressions know them, with the names of the resources.
    pub(crate) fn known<'a>(&'a self, resources: &'a HashSet<String>) -> KnownVars<'a> {
        let names = self.vars.keys().map(String::as_str).collect();
        KnownVars {
            names,
            wrong: &self.wrong,
            of_facts: &self.of_facts,
            late: &self.late,
            sensitive: &self.sensitive,
            resources,
        }
    }
}

/// The variables as checks of expressions know them.
pub(crate) struct KnownVars<'a> {
    pub(crate) names: HashSet<&'a str>,
    /// The variables that are wrong or use a wrong one.
    pub(crate) wrong: &'a BTreeSet<String>,
    /// The variables that follow from facts.
    pub(crate) of_facts: &'a BTreeSet<String>,
    late: &'a LateFacts,
    /// The secrets among their values.
    pub(crate) sensitive: &'a Sensitive,
    /// The names of the resources, which expressions may take for variables.
    pub(crate) resources: &'a HashSet<String>,
}

impl<'a> KnownVars<'a> {
    /// Returns whether any used name follows from facts that resources may keep.
    pub(crate) fn are_late(&self, used: &Used) -> bool {
        self.late.are_used(used)
    }

    /// Returns the names that may be used where everything has to be known at load.
    pub(crate) fn usable(&'a self, has_item: bool, place: &'a str) -> Usable<'a> {
        Usable::at_load((&self.names, self.sensitive), has_item, place)
    }
}

/// Evaluates the variables. Those that are set from outside must be among the others, if these
/// could be read as a whole. `kept` are paths of facts that resources may keep: a fault of a
/// variable because of these is no problem until the variable is used.
pub(crate) fn evaluate(
    (written, is_whole, kept): (IndexMap<String, Written>, bool, BTreeSet<Path>),
    outside: &Outside<'_>,
    bounds: &mut Bounds,
    problems: &mut Problems,
) -> Evaluated {
    let mut sensitive = Sensitive::new(outside.secrets);
    sensitive.add_facts(outside.facts);
    let read = (written, is_whole);
    let vars = collect(read, (outside, &mut sensitive), bounds, problems);
    let known = vars.keys().map(String::as_str).collect();
    let usable = Usable::by_variable(&known, &sensitive);
    let mut edges = Edges::new(vars.len());
    let mut checked = Vec::with_capacity(vars.len());
    for (index, var) in vars.values().enumerate() {
        let before = problems.count();
        let used = match var {
            Var::Written(written) => {
                check::check(&written.source, &written.node, &usable, problems)
            }
            Var::Set(_) => Used::default(),
        };
        for used in used.vars.iter().filter_map(|name| vars.get_index_of(name.as_str())) {
            edges.depends(index, used, OnChange::Check);
        }
        checked.push((used, problems.count() > before));
    }
    match Order::from_edges(edges) {
        Ok(order) => {
            let ordered = ordered(&order, vars, checked);
            in_order(ordered, (outside, sensitive, kept), bounds, problems)
        }
        Err(cycles) => {
            report_cycles(&vars, &cycles, problems);
            // Their names are enough to check the texts that use them.
            let null = |name: &String| (name.clone(), Value::from(()));
            Evaluated {
                vars: Arc::new(vars.keys().map(null).collect()),
                wrong: vars.into_keys().collect(),
                sensitive: Arc::new(sensitive),
                late: LateFacts::of(kept),
                ..Evaluated::default()
            }
        }
    }
}

/// Returns the variables in an order, each with the names that its expressions use and whether they
/// are wrong.
fn ordered(
    order: &Order,
    vars: IndexMap<String, Var>,
    checked: Vec<(Used, bool)>,
) -> Vec<CheckedVar> {
    let mut all: Vec<_> = vars.into_iter().zip(checked).map(Some).collect();
    let ordered = order.nodes().iter().filter_map(|index| {
        let ((name, var), (used, is_wrong)) = all[*index].take()?;
        Some(CheckedVar { name, var, used, is_wrong })
    });
    ordered.collect()
}

/// Evaluates the variables, each after those that it uses.
fn in_order(
    mut ordered: Vec<CheckedVar>,
    (outside, sensitive, kept): (&Outside<'_>, Sensitive, BTreeSet<Path>),
    bounds: &mut Bounds,
    problems: &mut Problems,
) -> Evaluated {
    let (host, facts) = (outside.host.clone(), from_json(&outside.facts.value));
    let names = Names { host, facts, sensitive: Arc::new(sensitive), ..Names::default() };
    let mut evaluation = Evaluation {
        names,
        fact_problems: outside.fact_problems,
        late: LateFacts::of(kept),
        budget: Budget::of_values(bounds.values()),
        wrong: BTreeSet::new(),
        deferred: BTreeMap::new(),
        files: BTreeMap::new(),
        of_facts: BTreeSet::new(),
    };
    for variable in &ordered {
        evaluation.add(variable, problems);
    }
    let Evaluation { names, late, budget, mut wrong, deferred, files, of_facts, .. } = evaluation;
    wrong.retain(|name| !deferred.contains_key(name));
    bounds.made(budget.made(), budget.is_overdrawn());
    let (vars, sensitive, deferred) = (names.vars, names.sensitive, Arc::new(deferred));
    let uses = ordered.iter().map(|it| (it.name.clone(), it.used.clone())).collect();
    // The rest is kept with the site, so it gives back its spare memory.
    ordered.retain(|variable| of_facts.contains(&variable.name));
    ordered.shrink_to_fit();
    let vars_of_facts = Arc::new(VarsOfFacts(ordered));
    Evaluated { vars, wrong, deferred, sensitive, files, uses, of_facts, late, vars_of_facts }
}

fn report_cycles(vars: &IndexMap<String, Var>, cycles: &[Vec<usize>], problems: &mut Problems) {
    for cycle in cycles {
        let names = cycle.iter().filter_map(|index| vars.get_index(*index));
        let path: Vec<&str> = names.map(|(name, _)| name.as_str()).collect();
        let message = format!("circular variables: {}", circle(&path));
        let first = cycle.first().and_then(|index| vars.get_index(*index));
        match first {
            Some((_, Var::Written(written))) => {
                problems.at(&written.source, written.key.start, message);
            }
            _ => problems.note(message),
        }
    }
}
