use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::PathBuf;
use std::sync::Arc;

use indexmap::IndexMap;
use minijinja::Value;

use crate::declaration::OnChange;
use crate::graph::{Edges, Graph};
use crate::manifest::check::{self, RESERVED, Usable};
use crate::manifest::document::{self, Written};
use crate::manifest::expression::{Budget, Names, from_json};
use crate::manifest::problem::{Problems, quoted};
use crate::manifest::source::{bad_name, is_name};
use crate::manifest::text::{Texts, Trouble};
use crate::text::circle;

/// What is set from outside, over the `vars` of a manifest.
#[derive(Debug, Clone, Default)]
pub struct Overrides {
    /// Files that hold a map of variables; a later one counts more.
    pub files: Vec<PathBuf>,
    /// Names and values, which are taken as they are; they count more than the files.
    pub vars: Vec<(String, String)>,
}

/// The variables of a manifest, evaluated.
pub(crate) type Vars = Arc<BTreeMap<String, Value>>;

enum Var {
    /// A value whose expressions are evaluated.
    Written(Written),
    /// A text from outside.
    Text(String),
}

/// Evaluates the variables.
pub(crate) fn evaluate(
    written: IndexMap<String, Written>,
    overrides: &Overrides,
    problems: &mut Problems,
) -> Vars {
    let vars = collect(written, overrides, problems);
    let known = vars.keys().map(String::as_str).collect();
    let usable = Usable { vars: &known, aliases: None };
    let positions: HashMap<&str, usize> =
        vars.keys().enumerate().map(|(index, name)| (name.as_str(), index)).collect();
    let before = problems.count();
    let mut edges = Edges::new(vars.len());
    for (index, var) in vars.values().enumerate() {
        let used = match var {
            Var::Written(written) => {
                check::check(&written.source, &written.node, &usable, problems)
            }
            Var::Text(_) => BTreeSet::new(),
        };
        for used in used.iter().filter_map(|name| positions.get(name.as_str())) {
            edges.depends(index, *used, OnChange::Check);
        }
    }
    match Graph::from_edges(edges) {
        Ok(graph) if problems.count() == before => in_order(&vars, graph.order(), problems),
        // Their names are enough to check what uses them.
        Ok(_) => unevaluated(&vars),
        Err(cycles) => {
            report_cycles(&vars, &cycles, problems);
            unevaluated(&vars)
        }
    }
}

fn collect(
    written: IndexMap<String, Written>,
    overrides: &Overrides,
    problems: &mut Problems,
) -> IndexMap<String, Var> {
    let mut vars: IndexMap<String, Var> =
        written.into_iter().map(|(name, written)| (name, Var::Written(written))).collect();
    for file in &overrides.files {
        for (name, written) in document::read_vars(file, problems) {
            vars.insert(name, Var::Written(written));
        }
    }
    for (name, var) in &vars {
        if let (Some(message), Var::Written(written)) = (refused(name), var) {
            problems.at(&written.source, written.key.start, message);
        }
    }
    for (name, text) in &overrides.vars {
        if let Some(message) = refused(name) {
            problems.note(message);
        }
        vars.insert(name.clone(), Var::Text(text.clone()));
    }
    vars
}

fn refused(name: &str) -> Option<String> {
    if RESERVED.contains(&name) {
        return Some(format!("{} cannot be a variable: the name is reserved", quoted(name)));
    }
    (!is_name(name)).then(|| bad_name("name of a variable", name))
}

fn in_order(vars: &IndexMap<String, Var>, order: &[usize], problems: &mut Problems) -> Vars {
    let mut names = Names::default();
    let mut budget = Budget::new();
    for index in order {
        let Some((name, var)) = vars.get_index(*index) else { continue };
        let value = match var {
            Var::Text(text) => Value::from(text.as_str()),
            Var::Written(written) => {
                let mut texts = Texts::new(&names, &mut budget);
                let value = texts.node(&written.node);
                for Trouble { span, text, failure } in texts.finish().troubles {
                    check::report(&written.source, (&text, &span), failure, problems);
                }
                from_json(&value)
            }
        };
        Arc::make_mut(&mut names.vars).insert(name.clone(), value);
    }
    names.vars
}

fn unevaluated(vars: &IndexMap<String, Var>) -> Vars {
    Arc::new(vars.keys().map(|name| (name.clone(), Value::from(()))).collect())
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
