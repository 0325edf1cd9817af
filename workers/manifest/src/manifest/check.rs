use std::collections::{BTreeSet, HashSet};
use std::ops::Range;

use crate::manifest::expression::{
    FILTERS, FUNCTIONS, Failure, Parsed, TESTS, Use, is_template, uses,
};
use crate::manifest::lines::Source;
use crate::manifest::node::{Data, Entry, Map, Node};
use crate::manifest::problem::{Hint, Problems, quoted};

/// The names at the begin of an expression that are no variables.
pub(crate) const RESERVED: &[&str] =
    &["vars", "deps", "facts", "host", "item", "loop", "self", "true", "false", "none"];

/// What the expressions of one place may use.
pub(crate) struct Usable<'a> {
    pub(crate) vars: &'a HashSet<&'a str>,
    /// The aliases; none where there are no dependencies.
    pub(crate) aliases: Option<BTreeSet<&'a str>>,
    /// Those that stand for all resources of a `for_each`.
    pub(crate) groups: BTreeSet<&'a str>,
    /// Whether there is an item.
    pub(crate) has_item: bool,
    /// What the place is, for messages.
    pub(crate) place: &'a str,
    /// Whether it is a variable.
    pub(crate) is_variable: bool,
}

impl<'a> Usable<'a> {
    /// Returns what a variable may use.
    pub(crate) fn by_variable(vars: &'a HashSet<&'a str>) -> Self {
        Self { is_variable: true, ..Self::at_load(vars, false, "a variable") }
    }

    /// Returns what may be used where everything has to be known at load.
    pub(crate) fn at_load(vars: &'a HashSet<&'a str>, has_item: bool, place: &'a str) -> Self {
        Self { vars, aliases: None, groups: BTreeSet::new(), has_item, place, is_variable: false }
    }
}

/// What the expressions of one place use.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Used {
    /// The variables, each by its name.
    pub(crate) vars: BTreeSet<String>,
    /// Whether all variables are used as one value.
    pub(crate) all_vars: bool,
    /// Whether anything of the host is used.
    pub(crate) host: bool,
    /// The aliases of the dependencies whose states are used.
    pub(crate) aliases: BTreeSet<String>,
}

impl Used {
    /// Returns what uses all that there is.
    pub(crate) fn all() -> Self {
        Self { all_vars: true, host: true, ..Self::default() }
    }

    /// Returns this and what is used elsewhere.
    pub(crate) fn and(mut self, other: Self) -> Self {
        self.vars.extend(other.vars);
        self.aliases.extend(other.aliases);
        self.all_vars |= other.all_vars;
        self.host |= other.host;
        self
    }

    /// Returns whether any of these variables is used.
    pub(crate) fn uses_any(&self, vars: &BTreeSet<String>) -> bool {
        (self.all_vars && !vars.is_empty()) || self.vars.iter().any(|var| vars.contains(var))
    }
}

/// Checks all expressions of a value before anything is evaluated.
pub(crate) fn check(
    source: &Source,
    node: &Node,
    usable: &Usable<'_>,
    problems: &mut Problems,
) -> Used {
    let mut checker = Checker { source, usable, problems, used: Used::default() };
    checker.node(node);
    checker.used
}

/// Checks all expressions of one entry of a map.
pub(crate) fn check_entry(
    source: &Source,
    entry: (&str, &Entry),
    usable: &Usable<'_>,
    problems: &mut Problems,
) -> Used {
    let mut checker = Checker { source, usable, problems, used: Used::default() };
    checker.entry(entry.0, entry.1);
    checker.used
}

/// Checks all expressions of a file that is a text as a whole.
pub(crate) fn check_file(source: &Source, usable: &Usable<'_>, problems: &mut Problems) -> Used {
    let mut checker = Checker { source, usable, problems, used: Used::default() };
    checker.text(source.text(), &(0..source.text().len()));
    checker.used
}

struct Checker<'a> {
    source: &'a Source,
    usable: &'a Usable<'a>,
    problems: &'a mut Problems,
    used: Used,
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
        map.iter().for_each(|(key, entry)| self.entry(key, entry));
    }

    fn entry(&mut self, key: &str, entry: &Entry) {
        if is_template(key) {
            let message = "a key of a map holds no expressions";
            self.problems.with_hint(self.source, entry.key.start, message, Hint::of(key));
        }
        self.node(&entry.value);
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
        let hint = self.problems.nearest(name, names.iter().copied());
        Some(Failure { offset, message: format!("unknown {what} {}", quoted(name)), hint })
    }

    fn name(&mut self, offset: usize, path: &[String]) -> Option<Failure> {
        let vars = self.usable.vars.iter().copied();
        let aliases = self.usable.aliases.iter().flatten().copied();
        let first = path.first()?.as_str();
        let (message, hint) = match (first, path.get(1)) {
            ("vars", Some(name)) if self.usable.vars.contains(name.as_str()) => {
                self.used.vars.insert(name.clone());
                return None;
            }
            ("vars", Some(name)) => {
                (format!("unknown variable {}", quoted(name)), self.problems.nearest(name, vars))
            }
            ("vars", None) if self.usable.is_variable => (
                "a variable cannot use all variables, of which it is one".to_owned(),
                Hint::of(first),
            ),
            ("vars", None) => {
                self.used.all_vars = true;
                return None;
            }
            ("deps", _) if self.usable.aliases.is_none() => {
                let message = format!("{} cannot use dependencies", self.usable.place);
                let help =
                    "it is evaluated when the manifest is loaded, before anything is looked at";
                let hint = Hint::of(first);
                (message, if self.usable.is_variable { hint } else { hint.or(help) })
            }
            ("deps", None) => return None,
            ("deps", Some(alias)) => {
                if self.has_alias(alias) {
                    self.used.aliases.insert(alias.clone());
                    return self.state(offset, alias, path.get(2));
                }
                let message = format!("unknown dependency {}", quoted(alias));
                (message, self.problems.nearest(alias, aliases))
            }
            ("host", _) => {
                self.used.host = true;
                return None;
            }
            ("item", _) if self.usable.has_item => return None,
            ("item", _) => (
                "\"item\" is known only in a resource with \"for_each\"".to_owned(),
                Hint::of(first),
            ),
            ("facts", _) => (format!("{} is not yet supported", quoted(first)), Hint::of(first)),
            (name, _) if self.usable.vars.contains(name) => {
                self.used.vars.insert(name.to_owned());
                return None;
            }
            (name, next) if self.has_alias(name) => {
                self.used.aliases.insert(name.to_owned());
                return self.state(offset, name, next);
            }
            (name, _) => {
                let names = vars.chain(aliases).chain(["vars", "deps", "host"]);
                (format!("unknown name {}", quoted(name)), self.problems.nearest(name, names))
            }
        };
        Some(Failure { offset, message, hint })
    }

    /// A dependency has a `state` and nothing else; all of a `for_each` are a map from the items.
    fn state(&self, offset: usize, alias: &str, attribute: Option<&String>) -> Option<Failure> {
        if self.usable.groups.contains(alias) {
            return None;
        }
        let attribute = attribute.filter(|attribute| *attribute != "state")?;
        let message = format!("dependency {} has no {}", quoted(alias), quoted(attribute));
        let right = format!("deps.{alias}.state.{attribute}");
        let mut hint = Hint::of(attribute);
        if right.len() < 200 {
            hint = hint.or(format!("it has a \"state\": {right}")).suggest(Some(&right));
        }
        Some(Failure { offset, message, hint })
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
    problems.with_hint(source, offset, failure.message, failure.hint);
}
