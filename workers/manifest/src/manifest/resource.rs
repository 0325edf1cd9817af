//! The drafts of resources: what is written of each, before references are looked up.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use crankcase_resources::dynamic::Shape;
use crankcase_resources::front::{Dependency, KindSource, Place};
use crankcase_resources::{Meta, OnChange};

use crate::manifest::bounds::size_of;
use crate::manifest::document::{Written, listed, map, map_or_nothing};
use crate::manifest::lines::Source;
use crate::manifest::node::{Data, Entry, Map, Node};
use crate::manifest::problem::{Hint, Problem, Problems, quoted};
pub(crate) use crate::manifest::resource::decoder::Decoder;
use crate::manifest::source::{bad_name, is_name};
use crate::manifest::used::Used;

mod decoder;
mod meta;

/// The keys of a resource.
const KEYS: &[&str] =
    &["type", "config", "dependencies", "notify", "meta", "for_each", "when", "tags", "readonly"];
/// The names of dependencies in other formats.
const DEPENDENCIES: &[&str] = &["depends", "depends_on", "require", "requires", "needs"];
/// The keys of a dependency that is a map.
const DEPENDENCY_KEYS: &[&str] = &["resource", "on_change"];

/// A resource as it was written, with its references not looked up yet.
#[derive(Debug, Clone)]
pub(crate) struct Draft {
    pub(crate) name: String,
    pub(crate) kind: String,
    pub(crate) source: Arc<Source>,
    /// Where the name stands.
    pub(crate) offset: usize,
    pub(crate) config: Arc<Map>,
    /// Whether the config is the written one; false if that one is no map.
    pub(crate) has_config: bool,
    /// The attributes of the config whose expressions are wrong, or use a variable that is.
    pub(crate) wrong: Arc<BTreeSet<String>>,
    /// The names that the expressions of the config use, in all and by attribute.
    pub(crate) used: Arc<Used>,
    pub(crate) uses: Arc<[(String, Used)]>,
    /// The attributes of the config that follow from facts.
    pub(crate) of_facts: Arc<BTreeSet<String>>,
    /// The attributes of the config whose values come of secrets.
    pub(crate) hidden: Arc<BTreeSet<String>>,
    /// The secrets that may be on a command line, as expressions name them.
    pub(crate) exposes: Vec<(usize, String)>,
    /// The expression whose items have a resource each.
    pub(crate) for_each: Option<Arc<Guard>>,
    /// The item that this is the resource for.
    pub(crate) item: Option<Item>,
    /// The expression that says whether the resource is there.
    pub(crate) when: Option<Arc<Guard>>,
    /// The fault, due to facts, in its `when`, its `for_each` or its `meta`.
    pub(crate) unsure: Option<Arc<Unsure>>,
    pub(crate) dependencies: Vec<(usize, Dependency)>,
    pub(crate) notify: Vec<(usize, String)>,
    pub(crate) tags: Vec<String>,
    pub(crate) readonly: bool,
    pub(crate) meta: Meta,
}

impl Draft {
    /// Returns a resource of which only the name is known.
    fn new(name: &str, offset: usize, source: Arc<Source>) -> Self {
        Self {
            name: name.to_owned(),
            kind: String::new(),
            offset,
            config: Arc::default(),
            has_config: true,
            wrong: Arc::default(),
            used: Arc::default(),
            uses: Arc::default(),
            of_facts: Arc::default(),
            hidden: Arc::default(),
            exposes: Vec::new(),
            for_each: None,
            item: None,
            when: None,
            unsure: None,
            dependencies: Vec::new(),
            notify: Vec::new(),
            tags: Vec::new(),
            readonly: false,
            meta: Meta::default(),
            source,
        }
    }

    /// Returns how many bytes a copy of it takes, for another item.
    pub(crate) fn size(&self) -> usize {
        let dependencies = self.dependencies.iter();
        let used = dependencies.flat_map(|(_, used)| [&used.alias, &used.resource]);
        let notified = self.notify.iter().map(|(_, name)| name);
        let texts = [&self.name, &self.kind].into_iter().chain(used).chain(notified);
        texts.chain(&self.tags).map(|text| size_of(text.len())).sum()
    }
}

/// A `when` or a `for_each`: it says whether a resource is there, or for which items.
#[derive(Debug)]
pub(crate) struct Guard {
    pub(crate) source: Arc<Source>,
    pub(crate) node: Node,
    /// The names that its expressions use.
    pub(crate) used: Used,
    /// Whether the expressions are wrong by themselves. Such a problem was reported.
    pub(crate) is_wrong: bool,
}

/// Why it is not known whether a resource is there, for which items, or how it is kept.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Unsure {
    pub(crate) place: Place,
    pub(crate) message: String,
    /// Set if it follows from facts which resources of the site keep: it is known after apply.
    pub(crate) late: Option<Arc<Late>>,
}

/// Why it is known only after apply whether a resource is there, or for which items.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Late {
    /// The names that its expressions use.
    pub(crate) used: Used,
    /// The problem as long as it is not known.
    pub(crate) problem: Problem,
}

impl Unsure {
    /// Returns the message of a problem, at this place unless the problem has its own.
    pub(crate) fn of(problem: &Problem, place: impl FnOnce() -> Place) -> Self {
        let message = problem.message.clone();
        Self { place: problem.place.clone().unwrap_or_else(place), message, late: None }
    }
}

/// The settings of a `meta` that follow from facts.
#[derive(Debug, Default)]
pub(crate) struct MetaOfFacts {
    /// Whether all of them follow from facts: the `meta` is written as one text.
    pub(crate) is_whole: bool,
    /// The keys of the settings that follow from facts.
    pub(crate) keys: BTreeSet<String>,
    /// The fault that is due to facts and is deferred.
    pub(crate) wrong: Option<Unsure>,
}

/// The item of a resource of a `for_each`.
#[derive(Clone, PartialEq)]
pub(crate) struct Item {
    /// The key of the item: a text of a list, or a key of a map.
    pub(crate) key: String,
    /// The value that expressions see.
    pub(crate) value: serde_json::Value,
}

/// Shows the shape of the value.
impl fmt::Debug for Item {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("Item");
        shown.field("key", &self.key).field("value", &Shape::of(&self.value)).finish()
    }
}

/// The types that resources may have, and other knowledge of all resources before one is decoded.
#[derive(Clone, Copy)]
pub(crate) struct Types<'a> {
    /// The names of the known types.
    pub(crate) names: &'a [&'a str],
    /// The source of other types.
    pub(crate) source: Option<&'a dyn KindSource>,
    /// The settings in the `meta` of resources that may be wrong because of facts.
    pub(crate) metas: &'a BTreeMap<String, MetaOfFacts>,
}

/// Decodes one resource; reports all its problems, and returns the right parts of it.
pub(crate) fn decode(
    name: &str,
    written: Written,
    types: &Types<'_>,
    problems: &mut Problems,
) -> Draft {
    let Written { source, key, node } = written;
    let mut draft = Draft::new(name, key.start, Arc::clone(&source));
    if let Some(message) = amiss(name) {
        problems.with_hint(&source, key.start, message, Hint::of(name));
    }
    let what = format!("resource {}", quoted(name));
    let Some(mut map) = map(&source, node, &what, problems) else { return draft };
    let mut decoder = Decoder { source: &source, problems };
    match map.shift_remove("type") {
        Some(kind) => draft.kind = decoder.kind(kind.value, types),
        None => decoder.problems.at(&source, key.start, format!("{what} has no \"type\"")),
    }
    for (key, entry) in map {
        match key.as_str() {
            "config" => {
                let config = map_or_nothing(&source, entry.value, &key, decoder.problems);
                draft.has_config = config.is_some();
                draft.config = config.unwrap_or_default().into();
            }
            "dependencies" => draft.dependencies = decoder.dependencies(entry.value),
            "notify" => {
                let what = ("\"notify\" is a list of names", "the name of a resource");
                draft.notify = decoder.names(entry.value, what);
            }
            "meta" => {
                let none = MetaOfFacts::default();
                let of_facts = types.metas.get(name).unwrap_or(&none);
                let (settings, wrong) = meta::decode(&mut decoder, entry.value, of_facts);
                (draft.meta, draft.exposes) = settings;
                draft.unsure = wrong.map(Arc::new);
            }
            "for_each" => draft.for_each = Some(guard(&source, entry.value)),
            "when" => draft.when = Some(guard(&source, entry.value)),
            "tags" => draft.tags = decoder.tags(entry.value),
            "readonly" => draft.readonly = decoder.boolean(&entry.value, &key),
            key if DEPENDENCIES.contains(&key) => {
                let hint = Hint::of(key).or("did you mean \"dependencies\"?");
                let message = format!("unknown key {} in {what}", quoted(key));
                let hint = hint.suggest(Some("dependencies"));
                decoder.problems.with_hint(&source, entry.key.start, message, hint);
            }
            _ => decoder.unknown(&entry.key, &key, &what, KEYS),
        }
    }
    draft
}

/// Returns a guard whose expressions are not checked yet.
fn guard(source: &Arc<Source>, node: Node) -> Arc<Guard> {
    Arc::new(Guard { source: Arc::clone(source), node, used: Used::default(), is_wrong: false })
}

/// Returns the message about the name of a resource, if the name is wrong.
fn amiss(name: &str) -> Option<String> {
    if !is_name(name) {
        return Some(bad_name("name of a resource", name));
    }
    (name.contains("..") || name.ends_with('.')).then(|| {
        let rule = "it has no two dots in a row, and none at its end";
        format!("{} is not a name of a resource: {rule}", quoted(name))
    })
}

impl Decoder<'_> {
    fn kind(&mut self, node: Node, types: &Types<'_>) -> String {
        let span = node.span.clone();
        let Some(kind) = self.text(node, "\"type\"") else { return String::new() };
        if self.is_unevaluated(&kind) {
            return kind;
        }
        let names = || types.names.iter().copied();
        let is_known = types.names.contains(&kind.as_str());
        let source = types.source.filter(|_| !is_known);
        let made = source.map_or(Ok(None), |it| it.name(&kind, &self.source.folder()));
        let (message, hint) = match made {
            Ok(Some(name)) => return name,
            Ok(None) if is_known => return kind,
            Ok(None) if kind.contains(['/', ':']) => {
                let message = format!("type {} is external, and none is known here", quoted(&kind));
                (message, Hint::of(kind.as_str()).or(listed(types.names)))
            }
            Ok(None) => {
                let hint = self.problems.nearest(&kind, names()).or(listed(types.names));
                (format!("unknown type {}", quoted(&kind)), hint)
            }
            Err(wrong) => (format!("type {}: {wrong}", quoted(&kind)), Hint::of(kind.as_str())),
        };
        self.problems.with_hint(self.source, span.start, message, hint);
        kind
    }

    fn dependencies(&mut self, node: Node) -> Vec<(usize, Dependency)> {
        if !matches!(node.data, Data::Map(_)) {
            let names = self
                .names(
                    node,
                    ("\"dependencies\" is a list of names or a map", "the name of a resource"),
                )
                .into_iter();
            return names
                .filter(|(_, resource)| !self.is_unevaluated(resource))
                .map(|(offset, resource)| {
                    let alias = resource.clone();
                    (offset, Dependency { alias, resource, on_change: OnChange::default() })
                })
                .collect();
        }
        let map = self.map_or_nothing(node, "dependencies");
        map.into_iter().filter_map(|(alias, entry)| self.dependency(alias, entry)).collect()
    }

    fn dependency(&mut self, alias: String, entry: Entry) -> Option<(usize, Dependency)> {
        if self.is_unevaluated(&alias) {
            return None;
        }
        if !is_name(&alias) {
            self.wrong(&entry.key, bad_name("alias of a dependency", &alias), &alias);
        }
        let offset = entry.value.span.start;
        let what = format!("dependency {}", quoted(&alias));
        if !matches!(entry.value.data, Data::Map(_)) {
            let resource = self.text(entry.value, &what)?;
            if self.is_unevaluated(&resource) {
                return None;
            }
            return Some((offset, Dependency { alias, resource, on_change: OnChange::default() }));
        }
        let mut on_change = OnChange::default();
        let mut resource = None;
        for (key, entry) in self.map_or_nothing(entry.value, &alias) {
            let span = entry.value.span.clone();
            match key.as_str() {
                "resource" => {
                    resource =
                        self.text(entry.value, "\"resource\"").map(|name| (span.start, name));
                    resource.as_ref().filter(|(_, name)| !self.is_unevaluated(name))?;
                }
                "on_change" => match self.text(entry.value, "\"on_change\"")?.as_str() {
                    "check" => on_change = OnChange::Check,
                    "notify" => on_change = OnChange::Notify,
                    "reload" => on_change = OnChange::Reload,
                    other => {
                        let message = format!("unknown \"on_change\" {}", quoted(other));
                        let words = ["check", "notify", "reload"];
                        let hint = self.problems.nearest(other, words).or(listed(&words));
                        self.problems.with_hint(self.source, span.start, message, hint);
                    }
                },
                _ => self.unknown(&entry.key, &key, &what, DEPENDENCY_KEYS),
            }
        }
        let Some((offset, resource)) = resource else {
            self.at(&entry.key, format!("{what} has no \"resource\""));
            return None;
        };
        Some((offset, Dependency { alias, resource, on_change }))
    }

    fn tags(&mut self, node: Node) -> Vec<String> {
        let mut tags = Vec::new();
        for (offset, tag) in self.names(node, ("\"tags\" is a list of words", "a tag")) {
            if is_name(&tag) {
                tags.push(tag);
            } else {
                self.wrong(&(offset..offset), bad_name("tag", &tag), &tag);
            }
        }
        tags
    }
}
