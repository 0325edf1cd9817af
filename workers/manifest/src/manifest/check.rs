//! The check of expressions before any is evaluated: whether each name may be used there.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::ops::Range;

use crankcase_resources::dynamic::Table;
use crankcase_resources::front::Wanted;

use crate::manifest::expression::{
    FILTERS, FUNCTIONS, Failure, Parsed, TESTS, Use, is_template, uses,
};
use crate::manifest::lines::Source;
use crate::manifest::node::{Data, Entry, Map, Node};
use crate::manifest::problem::{Hint, Problems, quoted};
use crate::manifest::sensitive::Sensitive;
use crate::manifest::used::Used;

mod fit;

/// The names at the beginning of an expression that are no variables.
pub(crate) const RESERVED: &[&str] =
    &["vars", "deps", "facts", "host", "item", "loop", "self", "true", "false", "none"];

/// The names that the expressions of one place may use.
pub(crate) struct Usable<'a> {
    pub(crate) vars: &'a HashSet<&'a str>,
    /// The secrets among their values.
    pub(crate) sensitive: &'a Sensitive,
    /// The aliases; none where there are no dependencies.
    pub(crate) aliases: Option<BTreeSet<&'a str>>,
    /// The resources of the manifest, for the message that one of them is no dependency; none where
    /// there are no dependencies.
    pub(crate) resources: Option<&'a HashSet<String>>,
    /// The aliases that stand for all resources of a `for_each`.
    pub(crate) groups: BTreeSet<&'a str>,
    /// The attributes of the dependencies' states, by alias, as far as they are known.
    pub(crate) states: BTreeMap<&'a str, &'a Table>,
    /// The attributes that the config may have, if they are known.
    pub(crate) parameters: Option<&'a Table>,
    /// Whether there is an item.
    pub(crate) has_item: bool,
    /// The description of the place, for messages.
    pub(crate) place: &'a str,
    /// Whether the place is a variable.
    pub(crate) is_variable: bool,
}

impl<'a> Usable<'a> {
    /// Returns the names that a variable may use.
    pub(crate) fn by_variable(vars: &'a HashSet<&'a str>, sensitive: &'a Sensitive) -> Self {
        Self { is_variable: true, ..Self::at_load((vars, sensitive), false, "a variable") }
    }

    /// Returns the names that may be used where everything has to be known at load.
    pub(crate) fn at_load(
        (vars, sensitive): (&'a HashSet<&'a str>, &'a Sensitive),
        has_item: bool,
        place: &'a str,
    ) -> Self {
        Self {
            vars,
            sensitive,
            aliases: None,
            resources: None,
            groups: BTreeSet::new(),
            states: BTreeMap::new(),
            parameters: None,
            has_item,
            place,
            is_variable: false,
        }
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
    checker.check_type(entry.0, &entry.1.value);
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
                let mut minuses = BTreeSet::new();
                for used in uses {
                    let Some(mut failure) = self.used(&used) else { continue };
                    if let Use::Name { offset, .. } = used
                        && let Some((start, minus)) = self.minus(text, offset)
                    {
                        if !minuses.insert(start) {
                            continue;
                        }
                        failure = minus;
                    }
                    report(self.source, (text, span), failure, self.problems);
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
        if matches!(first, "vars" | "facts") || self.usable.vars.contains(first) {
            self.used.secrets.extend(self.usable.sensitive.used(path));
        }
        let (message, hint) = match (first, path.get(1)) {
            ("vars", Some(name)) if self.usable.vars.contains(name.as_str()) => {
                return self.variable(name);
            }
            ("vars", Some(name)) => {
                (format!("unknown variable {}", quoted(name)), self.problems.nearest(name, vars))
            }
            ("vars", None) if self.usable.is_variable => (
                "a variable cannot use all variables, of which it is one".to_owned(),
                Hint::of(first),
            ),
            ("vars", None) => {
                self.problems.used_all();
                self.used.all_vars = true;
                return None;
            }
            ("deps", _) if self.usable.aliases.is_none() => self.no_dependencies(),
            ("deps", None) => {
                self.used.all_states = true;
                return None;
            }
            ("deps", Some(alias)) => {
                if self.has_alias(alias) {
                    return self.state(offset, alias, &path[2..]);
                }
                let message = format!("unknown dependency {}", quoted(alias));
                (
                    message,
                    self.undeclared(alias).unwrap_or_else(|| self.problems.nearest(alias, aliases)),
                )
            }
            ("host", _) => {
                self.used.host = true;
                return None;
            }
            ("item", _) if self.usable.has_item => {
                self.used.item = true;
                return None;
            }
            ("item", _) => self.no_item(),
            ("facts", _) => {
                self.used.facts.insert(path[1..].to_vec());
                return None;
            }
            (name, _) if self.usable.vars.contains(name) => return self.variable(name),
            (name, _) if self.has_alias(name) => return self.state(offset, name, &path[1..]),
            (name, _) => {
                let names = vars.chain(aliases).chain(["vars", "deps", "facts", "host"]);
                let nearest = || self.problems.nearest(name, names);
                let hint = self.undeclared(name).unwrap_or_else(nearest);
                (format!("unknown name {}", quoted(name)), hint)
            }
        };
        Some(Failure { offset, message, hint })
    }

    /// Notes that a variable is used.
    fn variable(&mut self, name: &str) -> Option<Failure> {
        self.problems.used(name);
        self.used.vars.insert(name.to_owned());
        None
    }

    /// Returns the message that there are no dependencies here.
    fn no_dependencies(&self) -> (String, Hint) {
        let message = format!("{} cannot use dependencies", self.usable.place);
        let help = "it is evaluated when the manifest is loaded, before anything is looked at";
        let hint = Hint::of("deps");
        if self.usable.place.starts_with("rule ") {
            return (
                message,
                hint.or(
                    "it sees why it acts as \"item\"; on {state: NAME}, the state is item.value",
                ),
            );
        }
        (message, if self.usable.is_variable { hint } else { hint.or(help) })
    }

    /// Returns the message that there is no item here.
    fn no_item(&self) -> (String, Hint) {
        let message = match self.usable.place {
            place @ ("a type" | "a dependency" | "meta") => {
                format!("{place} is the same for all items")
            }
            _ => "\"item\" is known only in a resource with \"for_each\"".to_owned(),
        };
        (message, Hint::of("item"))
    }

    /// Returns the hint that a resource is no dependency yet.
    fn undeclared(&self, name: &str) -> Option<Hint> {
        let is_resource = self.usable.resources.is_some_and(|names| names.contains(name));
        let help = "it is a resource, and no dependency of this one: add it to \"dependencies\"";
        is_resource.then(|| Hint::of(name).or(help))
    }

    /// Finds a name with a "-" around an unknown one: an expression takes it for a subtraction.
    fn minus(&self, text: &str, offset: usize) -> Option<(usize, Failure)> {
        let is_name = |byte: &u8| byte.is_ascii_alphanumeric() || b"_.-".contains(byte);
        let before = text.as_bytes().get(..offset)?.iter().rev().take_while(|byte| is_name(byte));
        let start = offset - before.count();
        let rest = text.get(start..)?;
        let run = &rest[..rest.bytes().take_while(|byte| is_name(byte)).count()];
        let of = ["deps.", "vars."].into_iter().find(|of| run.starts_with(of)).unwrap_or_default();
        let ends = (of.len()..=run.len()).rev();
        let mut names = ends.map(|end| &run[of.len()..end]).filter(|name| name.contains('-'));
        let (name, scope, undeclared) = names.find_map(|name| {
            let is_var = of != "deps." && self.usable.vars.contains(name);
            let is_state = of != "vars.";
            let undeclared = self.undeclared(name).filter(|_| is_state);
            let scope = if is_var { "vars" } else { "deps" };
            let is_known = is_var || (is_state && self.has_alias(name)) || undeclared.is_some();
            is_known.then_some((name, scope, undeclared.is_some() && !self.has_alias(name)))
        })?;
        let message = format!("{} is taken for a subtraction here", quoted(name));
        let right = format!("{scope}['{name}']");
        let add =
            if undeclared && scope == "deps" { ", and add it to \"dependencies\"" } else { "" };
        let hint = Hint::of(format!("{of}{name}")).or(format!("write {right}{add}"));
        Some((start, Failure { offset: start, message, hint: hint.suggest(Some(&right)) }))
    }

    /// A dependency has a `state`, a `name` and a `type`; all of a `for_each` are a map from item to state.
    fn state(&mut self, offset: usize, alias: &str, rest: &[String]) -> Option<Failure> {
        let is_group = self.usable.groups.contains(alias);
        if !is_group && matches!(rest, [name] if name == "name" || name == "type") {
            let states = self.used.states.entry(alias.to_owned());
            states.or_insert_with(Wanted::nothing);
            return None;
        }
        // Either way one attribute of the state, or the whole of it, comes after one more name.
        let wanted = match rest.get(1) {
            Some(attribute) => Wanted::Attributes(BTreeSet::from([attribute.clone()])),
            None => Wanted::Whole,
        };
        let states = self.used.states.entry(alias.to_owned());
        states.or_insert_with(Wanted::nothing).add(wanted);
        let Some(attribute) = rest.first().filter(|name| !is_group && *name != "state") else {
            return self.attribute(offset, alias, rest.get(1)?);
        };
        let message = format!("dependency {} has no {}", quoted(alias), quoted(attribute));
        let right = format!("deps.{alias}.state.{attribute}");
        let mut hint = Hint::of(attribute);
        if right.len() < 200 {
            hint = hint.or(format!("it has a \"state\": {right}")).suggest(Some(&right));
        }
        Some(Failure { offset, message, hint })
    }

    /// Finds an attribute that the dependency's state does not have.
    fn attribute(&self, offset: usize, alias: &str, attribute: &str) -> Option<Failure> {
        let table = self.usable.states.get(alias).filter(|table| !table.is_open)?;
        if table.get(attribute).is_some() {
            return None;
        }
        let message = format!("the state of {} has no {}", quoted(alias), quoted(attribute));
        let names = || table.names().collect::<Vec<_>>().join(", ");
        let hint =
            self.problems.nearest(attribute, table.names()).or(format!("there are {}", names()));
        Some(Failure { offset, message, hint })
    }

    fn has_alias(&self, name: &str) -> bool {
        self.usable.aliases.as_ref().is_some_and(|aliases| aliases.contains(name))
    }
}

/// Notes the problem of an expression at its place in the file.
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
