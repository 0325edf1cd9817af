//! The evaluation of the texts in a value, and of the text of a file.

use std::collections::BTreeSet;
use std::ops::Range;

use serde_json::{Map, Value};

use crate::manifest::expression::{
    Budget, Failure, Names, Parsed, Stop, Use, evaluate, evaluate_text, is_template, to_json, uses,
};
use crate::manifest::node::{self, Data, Node};

/// An expression of a value that could not be evaluated.
pub(crate) struct Trouble {
    /// The part of the file that the text covers.
    pub(crate) span: Range<usize>,
    pub(crate) text: String,
    pub(crate) failure: Failure,
}

/// The findings beside the value.
#[derive(Default)]
pub(crate) struct Findings {
    pub(crate) troubles: Vec<Trouble>,
    /// The aliases whose state is not known yet and was asked for.
    pub(crate) unknown: BTreeSet<String>,
}

/// Evaluates the texts of a value.
pub(crate) struct Texts<'a> {
    names: &'a Names,
    budget: &'a mut Budget,
    findings: Findings,
}

impl<'a> Texts<'a> {
    pub(crate) fn new(names: &'a Names, budget: &'a mut Budget) -> Self {
        Self { names, budget, findings: Findings::default() }
    }

    /// Returns the value with its texts evaluated; those that have no result are null.
    pub(crate) fn node(&mut self, node: &Node) -> Value {
        let bytes = match &node.data {
            Data::String(text) if is_template(text) => return self.string(text, &node.span),
            Data::String(text) => text.len(),
            _ => 0,
        };
        if !self.take(bytes, &node.span) {
            return Value::Null;
        }
        match &node.data {
            Data::Null => Value::Null,
            Data::Bool(value) => Value::Bool(*value),
            Data::Number(value) => Value::Number(value.clone()),
            Data::String(value) => Value::String(value.clone()),
            Data::List(items) => items.iter().map(|item| self.node(item)).collect(),
            Data::Map(map) => self.map(map).into(),
        }
    }

    /// Evaluates the texts of a map.
    pub(crate) fn map(&mut self, map: &node::Map) -> Map<String, Value> {
        let mut values = Map::new();
        for (key, entry) in map {
            if self.take(key.len(), &entry.key) {
                values.insert(key.clone(), self.node(&entry.value));
            }
        }
        values
    }

    /// Takes the bytes of a value that is not evaluated; reports once that there are too many.
    fn take(&mut self, bytes: usize, span: &Range<usize>) -> bool {
        if self.budget.is_overdrawn() {
            return false;
        }
        let Err(why) = self.budget.value(bytes) else { return true };
        let failure = Failure::new(0, why);
        self.findings.troubles.push(Trouble { span: span.clone(), text: String::new(), failure });
        false
    }

    pub(crate) fn finish(self) -> Findings {
        self.findings
    }

    fn string(&mut self, text: &str, span: &Range<usize>) -> Value {
        if self.budget.is_overdrawn() {
            return Value::Null;
        }
        match render(text, self.names, self.budget) {
            Ok(value) => return value,
            Err(Stop::Unknown(aliases)) => self.findings.unknown.extend(aliases),
            Err(Stop::Failed(failure)) => {
                let (span, text) = (span.clone(), text.to_owned());
                self.findings.troubles.push(Trouble { span, text, failure });
            }
        }
        Value::Null
    }
}

/// Evaluates one text; exactly one expression keeps its type.
fn render(text: &str, names: &Names, budget: &mut Budget) -> Result<Value, Stop> {
    let parsed = Parsed::new(text).map_err(Stop::Failed)?;
    let value = evaluate(&parsed, names, budget).map_err(|stop| complete(stop, &parsed, names))?;
    to_json(&value, budget).map_err(|message| Stop::Failed(Failure::new(0, message)))
}

/// Evaluates one text into a text.
pub(crate) fn render_text(text: &str, names: &Names, budget: &mut Budget) -> Result<String, Stop> {
    let parsed = Parsed::new(text).map_err(Stop::Failed)?;
    evaluate_text(&parsed, names, budget).map_err(|stop| complete(stop, &parsed, names))
}

/// Returns the aliases of the resources for which a variable waits. `path` is the variable, as expressions name it,
/// with the attributes that are taken from it.
fn of_variable<'a>(path: &[String], names: &'a Names) -> impl Iterator<Item = &'a String> {
    let name = match path {
        [first, name, ..] if first == "vars" => Some(name),
        // An alias hides a variable.
        [name, ..] => Some(name).filter(|name| !names.deps.contains_key(*name)),
        [] => None,
    };
    name.and_then(|name| names.unknown_vars.get(name)).into_iter().flatten()
}

/// Adds the unknown aliases that the evaluation did not reach, as it ended at the first, and those
/// of facts.
fn complete(stop: Stop, parsed: &Parsed<'_>, names: &Names) -> Stop {
    let Stop::Unknown(mut aliases) = stop else { return stop };
    let is_unknown = |name: &String| matches!(names.deps.get(name), Some(None));
    for used in uses(parsed).unwrap_or_default() {
        if let Use::Name { path, .. } = used {
            if path.first().is_some_and(|first| first == "facts") {
                aliases.extend(names.unknown_facts.at(&path[1..]));
                continue;
            }
            aliases.extend(of_variable(&path, names).cloned());
            let is_deps = path.first().is_some_and(|first| first == "deps");
            aliases.extend(path.into_iter().nth(usize::from(is_deps)).filter(is_unknown));
        }
    }
    Stop::Unknown(aliases)
}
