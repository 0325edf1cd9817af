use std::collections::{BTreeSet, HashSet};
use std::ops::Range;

use crate::manifest::expression::{
    FILTERS, FUNCTIONS, Failure, Parsed, TESTS, Use, is_template, uses,
};
use crate::manifest::node::{Data, Map, Node};
use crate::manifest::problem::{Problems, quoted};
use crate::manifest::source::Source;

/// The names at the begin of an expression that are no variables.
pub(crate) const RESERVED: &[&str] =
    &["vars", "deps", "facts", "host", "item", "loop", "self", "true", "false", "none"];

/// What the expressions of one place may use.
pub(crate) struct Usable<'a> {
    pub(crate) vars: &'a HashSet<&'a str>,
    /// The aliases; none where there are no dependencies.
    pub(crate) aliases: Option<BTreeSet<&'a str>>,
}

/// Checks all expressions of a value before anything is evaluated.
///
/// Returns the variables that they use.
pub(crate) fn check(
    source: &Source,
    node: &Node,
    usable: &Usable<'_>,
    problems: &mut Problems,
) -> BTreeSet<String> {
    let mut checker = Checker { source, usable, problems, vars: BTreeSet::new() };
    checker.node(node);
    checker.vars
}

/// Checks all expressions of a config.
pub(crate) fn check_map(source: &Source, map: &Map, usable: &Usable<'_>, problems: &mut Problems) {
    Checker { source, usable, problems, vars: BTreeSet::new() }.map(map);
}

struct Checker<'a> {
    source: &'a Source,
    usable: &'a Usable<'a>,
    problems: &'a mut Problems,
    vars: BTreeSet<String>,
}

impl Checker<'_> {
    fn node(&mut self, node: &Node) {
        match &node.data {
            Data::String(text) if is_template(text) => self.text(text, &node.span),
            Data::List(items) => items.iter().for_each(|item| self.node(item)),
            Data::Map(map) => self.map(map),
            _ => {}
        }
    }

    fn map(&mut self, map: &Map) {
        for (key, entry) in map {
            if is_template(key) {
                let message = "a key of a map holds no expressions";
                self.problems.at(self.source, entry.key.start, message);
            }
            self.node(&entry.value);
        }
    }

    fn text(&mut self, text: &str, span: &Range<usize>) {
        match Parsed::new(text).and_then(|parsed| uses(&parsed)) {
            Ok(uses) => {
                for used in uses {
                    if let Some(failure) = self.used(&used) {
                        report(self.source, (text, span), failure, self.problems);
                    }
                }
            }
            Err(failure) => report(self.source, (text, span), failure, self.problems),
        }
    }

    fn used(&mut self, used: &Use) -> Option<Failure> {
        match used {
            Use::Name { offset, path } => self.name(*offset, path),
            Use::Filter { offset, name } => self.one_of(*offset, name, "filter", FILTERS),
            Use::Test { offset, name } => self.one_of(*offset, name, "test", TESTS),
            Use::Function { offset, name } => self.one_of(*offset, name, "function", FUNCTIONS),
        }
    }

    fn one_of(&self, offset: usize, name: &str, what: &str, names: &[&str]) -> Option<Failure> {
        if names.contains(&name) {
            return None;
        }
        let help = self.problems.nearest(name, names.iter().copied());
        Some(Failure { offset, message: format!("unknown {what} {}", quoted(name)), help })
    }

    fn name(&mut self, offset: usize, path: &[String]) -> Option<Failure> {
        let vars = self.usable.vars.iter().copied();
        let aliases = self.usable.aliases.iter().flatten().copied();
        let first = path.first()?.as_str();
        let (message, help) = match (first, path.get(1)) {
            ("vars", Some(name)) if self.usable.vars.contains(name.as_str()) => {
                self.vars.insert(name.clone());
                return None;
            }
            ("vars", Some(name)) => {
                (format!("unknown variable {}", quoted(name)), self.problems.nearest(name, vars))
            }
            ("vars", None) if self.usable.aliases.is_none() => {
                ("a variable cannot use all variables, of which it is one".to_owned(), None)
            }
            ("vars", None) => return None,
            ("deps", _) if self.usable.aliases.is_none() => {
                ("a variable cannot use dependencies".to_owned(), None)
            }
            ("deps", None) => return None,
            ("deps", Some(alias)) => {
                if self.has_alias(alias) {
                    return self.state(offset, alias, path.get(2));
                }
                let message = format!("unknown dependency {}", quoted(alias));
                (message, self.problems.nearest(alias, aliases))
            }
            ("facts" | "host" | "item", _) => {
                (format!("{} is not yet supported", quoted(first)), None)
            }
            (name, _) if self.usable.vars.contains(name) => {
                self.vars.insert(name.to_owned());
                return None;
            }
            (name, next) if self.has_alias(name) => return self.state(offset, name, next),
            (name, _) => {
                let names = vars.chain(aliases).chain(["vars", "deps"]);
                (format!("unknown name {}", quoted(name)), self.problems.nearest(name, names))
            }
        };
        Some(Failure { offset, message, help })
    }

    /// A dependency has a `state` and nothing else.
    fn state(&self, offset: usize, alias: &str, attribute: Option<&String>) -> Option<Failure> {
        let attribute = attribute.filter(|attribute| *attribute != "state")?;
        let message = format!("dependency {} has no {}", quoted(alias), quoted(attribute));
        let help = Some(format!("it has a \"state\": deps.{alias}.state.{attribute}"));
        Some(Failure { offset, message, help: help.filter(|help| help.len() < 200) })
    }

    fn has_alias(&self, name: &str) -> bool {
        self.usable.aliases.as_ref().is_some_and(|aliases| aliases.contains(name))
    }
}

/// Notes what is wrong with an expression at its place in the file.
pub(crate) fn report(
    source: &Source,
    (text, span): (&str, &Range<usize>),
    failure: Failure,
    problems: &mut Problems,
) {
    if problems.only_counts() {
        return;
    }
    let offset = source.locate(span, text, failure.offset);
    problems.with_help(source, offset, failure.message, failure.help);
}
