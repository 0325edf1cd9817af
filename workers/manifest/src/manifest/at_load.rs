//! Texts that are evaluated before anything else of a resource is read: types, `meta`, dependencies, and plugs.

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
use crate::manifest::problem::{Hint, Problems, quoted};
use crate::manifest::text::{Texts, Trouble};
use crate::manifest::vars::KnownVars;

/// Puts values in the place of these texts. One that is wrong is told and stays as it is.
pub(crate) fn evaluate(
    (resources, plugs): (&mut IndexMap<String, Written>, &mut IndexMap<String, Written>),
    (vars, globals): (&KnownVars<'_>, &Globals),
    bounds: &mut Bounds,
    problems: &mut Problems,
) {
    let names = globals.names();
    let budget = Budget::of_values(bounds.values());
    let mut texts = AtLoad { vars, names, budget, problems };
    for Written { source, node, .. } in resources.values_mut() {
        let Data::Map(map) = &mut node.data else { continue };
        if let Some(kind) = map.get_mut("type") {
            texts.node(source, &mut kind.value, "a type");
        }
        if let Some(meta) = map.get_mut("meta") {
            texts.node(source, &mut meta.value, "meta");
        }
        if let Some(dependencies) = map.get_mut("dependencies") {
            texts.node(source, &mut dependencies.value, "a dependency");
            texts.keys(source, &mut dependencies.value, "a dependency");
        }
    }
    plugs.values_mut().for_each(|plug| texts.node(&plug.source, &mut plug.node, "a plug"));
    if plugs.keys().any(|name| is_template(name)) {
        for (name, plug) in std::mem::take(plugs) {
            let name = texts.key(&plug.source, (name, &plug.key), "a plug");
            texts.once(plugs.contains_key(&name), (&plug.source, plug.key.start), &name);
            plugs.insert(name, plug);
        }
    }
    let budget = texts.budget;
    bounds.made(budget.made(), budget.is_overdrawn());
}

struct AtLoad<'a> {
    vars: &'a KnownVars<'a>,
    names: Names,
    budget: Budget,
    problems: &'a mut Problems,
}

impl AtLoad<'_> {
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

    /// Returns a key, evaluated; one that is wrong as it is.
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

    /// Says of a name that is there already that it is there twice.
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
        if self.problems.count() > before || used.uses_any(self.vars.wrong) {
            return;
        }
        let texts = (&self.names, &mut self.budget);
        if let Some(value) = evaluated((source, node), texts, self.problems) {
            node.data = data(value, node);
        }
    }
}

/// Evaluates the texts of a value; none if one of them is wrong, which is told.
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

/// Returns a value as if it had been written where a text is.
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
