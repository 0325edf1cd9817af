//! Texts that are evaluated before anything else of a resource is read: types, `meta`, dependencies, and plugs.

use std::collections::BTreeMap;
use std::ops::Range;

use indexmap::IndexMap;
use serde_json::Value;

use crate::manifest::bounds::Bounds;
use crate::manifest::check;
use crate::manifest::document::Written;
use crate::manifest::expression::{Budget, Names, is_template};
use crate::manifest::globals::Globals;
use crate::manifest::lines::Source;
use crate::manifest::node::{Data, Entry, Map, Node};
use crate::manifest::problem::{FactProblems, Hint, Problems, quoted};
use crate::manifest::resource::{MetaOfFacts, Unsure};
use crate::manifest::structure::Deciding;
use crate::manifest::text::{Texts, Trouble};
use crate::manifest::used::Used;
use crate::manifest::vars::KnownVars;

/// The findings about the texts that are evaluated before anything else of a resource is read.
pub(crate) struct EvaluatedAtLoad {
    /// The names that the texts use.
    pub(crate) deciding: Deciding,
    /// The settings in the `meta` of resources that may be wrong because of facts.
    pub(crate) metas: BTreeMap<String, MetaOfFacts>,
}

/// Puts values in the place of these texts. A wrong text is reported, and stays as it is.
pub(crate) fn evaluate(
    (resources, plugs): (&mut IndexMap<String, Written>, &mut IndexMap<String, Written>),
    (vars, globals, fact_problems): (&KnownVars<'_>, &Globals, FactProblems),
    bounds: &mut Bounds,
    problems: &mut Problems,
) -> EvaluatedAtLoad {
    let names = globals.names();
    let budget = Budget::of_values(bounds.values());
    let (mut deciding, mut metas) = (Deciding::default(), BTreeMap::new());
    let (used, deferred) = (Used::default(), None);
    let mut texts = AtLoad { vars, names, fact_problems, budget, problems, used, deferred };
    for (name, Written { source, node, .. }) in resources.iter_mut() {
        let Data::Map(map) = &mut node.data else { continue };
        if let Some(kind) = map.get_mut("type") {
            texts.node(source, &mut kind.value, "a type");
        }
        if let Some(meta) = map.get_mut("meta") {
            let of_facts = texts.meta(source, &mut meta.value);
            if of_facts.is_whole || !of_facts.keys.is_empty() {
                metas.insert(name.clone(), of_facts);
            }
        }
        if let Some(dependencies) = map.get_mut("dependencies") {
            texts.node(source, &mut dependencies.value, "a dependency");
            texts.keys(source, &mut dependencies.value, "a dependency");
        }
        deciding.add(name, &std::mem::take(&mut texts.used));
    }
    plugs.values_mut().for_each(|plug| texts.node(&plug.source, &mut plug.node, "a plug"));
    if plugs.keys().any(|name| is_template(name)) {
        for (name, plug) in std::mem::take(plugs) {
            let name = texts.key(&plug.source, (name, &plug.key), "a plug");
            texts.once(plugs.contains_key(&name), (&plug.source, plug.key.start), &name);
            plugs.insert(name, plug);
        }
    }
    let AtLoad { budget, used, .. } = texts;
    bounds.made(budget.made(), budget.is_overdrawn());
    deciding.used = deciding.used.and(used);
    EvaluatedAtLoad { deciding, metas }
}

struct AtLoad<'a> {
    vars: &'a KnownVars<'a>,
    names: Names,
    fact_problems: FactProblems,
    budget: Budget,
    problems: &'a mut Problems,
    used: Used,
    /// Where the problems of values go, if they are deferred.
    deferred: Option<Problems>,
}

impl AtLoad<'_> {
    /// Evaluates a `meta`. Returns the settings that follow from facts, if the problems of facts
    /// are deferred.
    fn meta(&mut self, source: &Source, meta: &mut Node) -> MetaOfFacts {
        let mut of_facts = MetaOfFacts::default();
        if let Data::Map(map) = &mut meta.data {
            for (key, entry) in map {
                if self.setting(source, &mut entry.value, &mut of_facts.wrong) {
                    of_facts.keys.insert(key.clone());
                }
            }
        } else {
            of_facts.is_whole = self.setting(source, meta, &mut of_facts.wrong);
        }
        of_facts
    }

    /// Evaluates a value of a `meta`, and returns whether it follows from facts whose problems are
    /// deferred. In that case `wrong` gets the first of these problems.
    fn setting(&mut self, source: &Source, node: &mut Node, wrong: &mut Option<Unsure>) -> bool {
        let is_deferred =
            self.fact_problems == FactProblems::Deferred && self.follows_facts(source, node);
        self.deferred = is_deferred.then(Problems::default);
        self.node(source, node, "meta");
        if let Some(deferred) = self.deferred.take()
            && wrong.is_none()
        {
            let place = || source.place(node.span.start);
            *wrong = deferred.first().map(|it| Unsure::of(it, place));
        }
        is_deferred
    }

    /// Returns whether a value follows from facts.
    fn follows_facts(&self, source: &Source, node: &Node) -> bool {
        let usable = self.vars.usable(false, "");
        // Its problems are reported when the value is evaluated.
        let used = check::check(source, node, &usable, &mut Problems::default());
        used.follows_facts(self.vars.of_facts)
    }

    /// Evaluates the texts of a value, but not the keys of its maps.
    fn node(&mut self, source: &Source, node: &mut Node, place: &str) {
        match &mut node.data {
            Data::String(text) if is_template(text) => self.text(source, node, place),
            Data::List(items) => items.iter_mut().for_each(|item| self.node(source, item, place)),
            Data::Map(map) => {
                map.values_mut().for_each(|entry| self.node(source, &mut entry.value, place));
            }
            _ => {}
        }
    }

    /// Evaluates the keys of a map.
    fn keys(&mut self, source: &Source, node: &mut Node, place: &str) {
        let Data::Map(map) = &mut node.data else { return };
        if !map.keys().any(|key| is_template(key)) {
            return;
        }
        for (key, entry) in std::mem::take(map) {
            let key = self.key(source, (key, &entry.key), place);
            self.once(map.contains_key(&key), (source, entry.key.start), &key);
            map.insert(key, entry);
        }
    }

    /// Returns the evaluated key. A wrong key is returned as it is written.
    fn key(
        &mut self,
        source: &Source,
        (key, span): (String, &Range<usize>),
        place: &str,
    ) -> String {
        let mut node = Node { span: span.clone(), data: Data::String(key.clone()) };
        self.node(source, &mut node, place);
        if let Data::String(text) = node.data {
            return text;
        }
        let message = format!("a name is a text, not {}", node.description());
        self.problems.at(source, span.start, message);
        key
    }

    /// Reports a name that is there already.
    fn once(&mut self, is_there: bool, (source, offset): (&Source, usize), name: &str) {
        if is_there {
            let message = format!("{} is there twice", quoted(name));
            self.problems.with_hint(source, offset, message, Hint::of(name));
        }
    }

    fn text(&mut self, source: &Source, node: &mut Node, place: &str) {
        let before = self.problems.count();
        let used = check::check(source, node, &self.vars.usable(false, place), self.problems);
        if let Some(secret) = used.secrets.first() {
            let message = format!("{place} uses a secret, {secret}, and {place} is shown");
            self.problems.with_hint(source, node.span.start, message, Hint::of(secret));
        }
        let is_wrong = self.problems.count() > before || used.uses_any(self.vars.wrong);
        self.used = std::mem::take(&mut self.used).and(used);
        if is_wrong {
            return;
        }
        let texts = (&self.names, &mut self.budget);
        let found = self.deferred.as_mut().unwrap_or(&mut *self.problems);
        if let Some(value) = evaluated((source, node), texts, found) {
            node.data = data(value, node);
        }
    }
}

/// Evaluates the texts of a value. Returns none if one of them is wrong, and reports it.
pub(crate) fn evaluated(
    (source, node): (&Source, &Node),
    (names, budget): (&Names, &mut Budget),
    problems: &mut Problems,
) -> Option<Value> {
    let mut texts = Texts::new(names, budget);
    let value = texts.node(node);
    let troubles = texts.finish().troubles;
    let is_known = troubles.is_empty();
    for Trouble { span, text, failure } in troubles {
        check::report(source, (&text, &span), failure, problems);
    }
    is_known.then_some(value)
}

/// Returns a value as if it had been written in the place of a text.
fn data(value: Value, at: &Node) -> Data {
    let node = |value| Node { span: at.span.clone(), data: data(value, at) };
    match value {
        Value::Null => Data::Null,
        Value::Bool(value) => Data::Bool(value),
        Value::Number(value) => Data::Number(value),
        Value::String(value) => Data::String(value),
        Value::Array(items) => Data::List(items.into_iter().map(node).collect()),
        Value::Object(map) => {
            let entry = |value| Entry { key: at.span.clone(), value: node(value) };
            Data::Map(map.into_iter().map(|(key, value)| (key, entry(value))).collect::<Map>())
        }
    }
}
