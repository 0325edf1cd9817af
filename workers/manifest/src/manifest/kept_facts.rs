//! The facts that resources keep, and how expressions see them.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use crankcase_resources::Declaration;
use crankcase_workers::read_pointer_segment;
use minijinja::Value;
use minijinja::value::{Serde, ValueKind};

use crate::facts::SeenLayer;
use crate::manifest::used::{Used, is_on_the_way};

/// The attribute of a resource's state with the fact that the resource keeps.
pub(crate) const VALUE: &str = "value";

/// The names that lead to a fact.
pub(crate) type Path = Vec<String>;

/// The resource that keeps a fact.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Keeper {
    /// The resource, or the one that it is a part of, by its position among the drafts.
    pub(crate) node: usize,
    /// The name of the part, if it is one.
    pub(crate) part: Option<String>,
}

/// A fact that a resource keeps.
pub(crate) struct KeptFact {
    pub(crate) keeper: Keeper,
    /// The JSON pointer to the fact.
    pub(crate) pointer: String,
    /// Whether the resource keeps a fact of a layer.
    is_in_layer: bool,
    /// The maps that the layers of the host set over the fact; none if a layer hides the fact, or the fact is in a
    /// layer.
    over: Option<Over>,
}

/// Maps that layers set at the path of a fact, the one with the highest priority last. Its users share them.
type Over = Arc<Vec<serde_json::Value>>;

/// Shows no values of layers.
impl fmt::Debug for KeptFact {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KeptFact").field("pointer", &self.pointer).finish_non_exhaustive()
    }
}

impl KeptFact {
    /// Returns whether expressions may see the value that the resource writes.
    pub(crate) fn is_seen(&self) -> bool {
        self.is_in_layer || self.over.is_some()
    }

    /// Returns the maps that layers set over the value that the resource writes; none if expressions do not see it.
    pub(crate) fn seen_under(&self) -> Option<&Over> {
        self.over.as_ref()
    }
}

/// The facts that resources keep and that the host sees. Several may keep one fact: in layers, and below them.
#[derive(Debug, Default)]
pub(crate) struct KeptFacts {
    facts: BTreeMap<Path, Vec<KeptFact>>,
    /// The layers of the host in which resources keep facts.
    seen_layers: BTreeSet<Path>,
    /// The layers of other hosts and roles in which resources keep facts.
    other_layers: BTreeSet<Path>,
    /// The names of the resources that keep facts at paths which are known only after apply.
    late: Vec<String>,
}

impl KeptFacts {
    /// Adds the facts that a resource keeps, as far as their paths are known.
    pub(crate) fn add_all(
        &mut self,
        (declaration, keeper): (&Declaration, &Keeper),
        layers: &[SeenLayer],
    ) {
        let claims = declaration.claims.iter();
        let mut kept = claims.filter(|claim| claim.space == "fact" && claim.is_made()).peekable();
        if kept.peek().is_none() && !declaration.is_claimed && !declaration.noop {
            self.late.push(declaration.name.clone());
        }
        kept.for_each(|claim| self.add(&claim.name, keeper.clone(), layers));
    }

    /// Returns the names of the resources that keep facts at paths which are known only after
    /// apply.
    pub(crate) fn late(&self) -> &[String] {
        &self.late
    }

    /// Adds the fact at a JSON pointer, which a resource keeps below the layers of the host, or in one. A fact in a layer
    /// of another host or role is left out.
    fn add(&mut self, pointer: &str, keeper: Keeper, layers: &[SeenLayer]) {
        let (layer, path) = layer_and_path(pointer);
        let is_in_layer = !layer.is_empty();
        if is_in_layer {
            if !has_layer(layers, &layer) {
                self.other_layers.insert(layer);
                return;
            }
            self.seen_layers.insert(layer);
        }
        let over = if is_in_layer { None } else { over(layers, &path) };
        let pointer = pointer.to_owned();
        let keepers = self.facts.entry(path).or_default();
        if !is_in_layer {
            // One fact below the layers has one keeper. A second one is a conflict, which is reported elsewhere.
            keepers.retain(|kept| kept.is_in_layer);
        }
        keepers.push(KeptFact { keeper, pointer, is_in_layer, over });
    }

    /// Returns whether no resource keeps a fact.
    pub(crate) fn is_empty(&self) -> bool {
        self.facts.is_empty()
    }

    /// Returns the facts that are at a path, in it or around it, once for each resource that keeps
    /// them.
    fn touched(&self, path: &[String]) -> impl Iterator<Item = (&Path, &KeptFact)> {
        let within = self.facts.range(path.to_vec()..);
        let within = within.take_while(move |(at, _)| at.starts_with(path));
        let above = (0..path.len()).filter_map(move |end| self.facts.get_key_value(&path[..end]));
        above.chain(within).flat_map(|(path, keepers)| keepers.iter().map(move |kept| (path, kept)))
    }

    /// Returns all facts, once for each resource that keeps them.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &KeptFact> {
        self.facts.values().flatten()
    }

    /// Returns the facts that are used, directly or by way of variables, once for each resource
    /// that keeps them. `vars` has the names that each variable uses.
    pub(crate) fn used(
        &self,
        used: &Used,
        vars: &BTreeMap<String, Used>,
    ) -> BTreeMap<(&Path, &Keeper), &KeptFact> {
        let used = used.facts_in_turn(vars);
        let kept = used.iter().flat_map(|path| self.touched(path));
        kept.map(|(path, fact)| ((path, &fact.keeper), fact)).collect()
    }

    /// Returns whether the host sees the kept facts in the same way with these layers.
    pub(crate) fn is_alike(&self, layers: &[SeenLayer]) -> bool {
        self.seen_layers.iter().all(|layer| has_layer(layers, layer))
            && !self.other_layers.iter().any(|layer| has_layer(layers, layer))
            && self.facts.iter().all(|(path, keepers)| {
                // A fact below the layers has one keeper at most.
                let mut below = keepers.iter().filter(|kept| !kept.is_in_layer);
                below.all(|kept| kept.over == over(layers, path))
            })
    }
}

/// A fact that expressions use and that another resource keeps.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct UsedFact {
    pub(crate) path: Path,
    /// The name of the resource that keeps it, and its alias.
    pub(crate) keeper: String,
    pub(crate) alias: String,
    /// The maps that layers set over the fact.
    pub(crate) over: Over,
    /// Whether its value is a secret.
    pub(crate) is_secret: bool,
}

/// Shows no values of layers.
impl fmt::Debug for UsedFact {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("UsedFact");
        shown.field("path", &self.path).field("alias", &self.alias).finish_non_exhaustive()
    }
}

impl UsedFact {
    /// Returns the value that expressions see if the resource keeps this one.
    pub(crate) fn seen(&self, kept: Value) -> Value {
        self.over.iter().fold(kept, |below, layer| overlaid(&below, &Value::from(Serde(layer))))
    }
}

/// The facts that are not known before the resources that keep them: their paths, with the aliases
/// of these resources.
#[derive(Debug, Default)]
pub(crate) struct UnknownFacts(BTreeMap<Path, String>);

impl UnknownFacts {
    /// Adds a fact.
    pub(crate) fn add(&mut self, fact: &UsedFact) {
        self.0.insert(fact.path.clone(), fact.alias.clone());
    }

    /// Returns whether all facts are known.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the aliases of the resources that keep facts at a path, in it or around it.
    pub(crate) fn at(&self, path: &[String]) -> BTreeSet<String> {
        let unknown = self.0.iter().filter(|(kept, _)| is_on_the_way(kept, path));
        unknown.map(|(_, alias)| alias.clone()).collect()
    }
}

/// Returns facts with another value at a path. A value on the way that is no map becomes one.
pub(crate) fn with_fact(facts: &Value, path: &[String], value: Value) -> Value {
    let Some((name, rest)) = path.split_first() else { return value };
    let mut members = members(facts);
    let before = members.get(name).cloned().unwrap_or_default();
    members.insert(name.clone(), with_fact(&before, rest, value));
    members.into()
}

/// Returns a value with a layer over it, as the store of facts does: maps are merged, and any other value of the layer
/// counts.
fn overlaid(below: &Value, layer: &Value) -> Value {
    if below.kind() != ValueKind::Map || layer.kind() != ValueKind::Map {
        return layer.clone();
    }
    let mut all = members(below);
    for (name, over) in members(layer) {
        let seen = all.get(&name).map_or_else(|| over.clone(), |below| overlaid(below, &over));
        all.insert(name, seen);
    }
    all.into()
}

/// Returns the members of a map; of any other value none.
fn members(value: &Value) -> BTreeMap<String, Value> {
    let mut members = BTreeMap::new();
    if value.kind() == ValueKind::Map {
        for key in value.try_iter().into_iter().flatten() {
            if let (Some(name), Ok(member)) = (key.as_str(), value.get_item(&key)) {
                members.insert(name.to_owned(), member);
            }
        }
    }
    members
}

/// Returns the maps that layers set at a path; none if one of them sets something else there, or above.
fn over(layers: &[SeenLayer], path: &[String]) -> Option<Over> {
    let mut maps = Vec::new();
    for layer in layers {
        let mut at = Some(&*layer.facts);
        for name in path {
            let Some(above) = at else { break };
            at = above.as_object()?.get(name);
        }
        match at {
            Some(map) if map.is_object() => maps.push(map.clone()),
            Some(_) => return None,
            None => {}
        }
    }
    Some(Arc::new(maps))
}

fn has_layer(layers: &[SeenLayer], layer: &[String]) -> bool {
    layers.iter().any(|of_host| names(&of_host.pointer) == layer)
}

/// Returns the path of the fact at a JSON pointer. For a pointer into a layer, it is the path of the fact that the layer
/// sets.
pub(crate) fn path(pointer: &str) -> Path {
    layer_and_path(pointer).1
}

/// Returns the names that lead to the layer of a JSON pointer, none if it is in no layer, and the path of the fact.
fn layer_and_path(pointer: &str) -> (Path, Path) {
    let mut names = names(pointer);
    let is = |index: usize, name: &str| names.get(index).is_some_and(|it| it == name);
    let above = match is(0, "layers") {
        true if is(1, "role") => 3,
        true if is(1, "host") && is(3, "facts") => 4,
        _ => 0,
    };
    let path = names.split_off(above.min(names.len()));
    (names, path)
}

/// Returns the names in a JSON pointer.
fn names(pointer: &str) -> Path {
    let names = pointer.split('/').skip(1);
    names.map(|name| read_pointer_segment(name).unwrap_or_default().into_owned()).collect()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use minijinja::Value;
    use minijinja::value::Serde;
    use serde_json::json;

    use super::{Keeper, KeptFacts, UsedFact, over, path, with_fact};
    use crate::facts::SeenLayer;

    const KEEPER: Keeper = Keeper { node: 0, part: None };

    fn layer(pointer: &str, facts: serde_json::Value) -> SeenLayer {
        SeenLayer { pointer: pointer.to_owned(), facts: Arc::new(facts) }
    }

    #[test]
    fn a_fact_touches_what_is_in_it_and_around_it() {
        let mut kept = KeptFacts::default();
        for pointer in ["/a/b", "/a/bc", "/d"] {
            kept.add(pointer, KEEPER, &[]);
        }

        for (used, touched) in [
            ("/a/b/c", "/a/b"),
            ("/a/b", "/a/b"),
            ("/a", "/a/b /a/bc"),
            ("", "/a/b /a/bc /d"),
            ("/a/c", ""),
            ("/e", ""),
        ] {
            let used = path(used);
            let found = kept.touched(&used).map(|(_, kept)| kept.pointer.as_str());
            assert_eq!(found.collect::<Vec<_>>().join(" "), touched, "{used:?}");
        }
    }

    #[test]
    fn a_layer_hides_what_a_resource_writes() {
        for (pointer, facts, is_seen) in [
            ("/a/b", json!({}), true),
            ("/a/b", json!({"a": {"c": 1}}), true),
            ("/a/b", json!({"a": {"b": 1}}), false),
            ("/a/b", json!({"a": {"b": {"c": 1}}}), true),
            ("/a/b", json!({"a": 1}), false),
            ("/layers/role/web/a/b", json!({}), false),
        ] {
            let mut kept = KeptFacts::default();
            let layers = [layer("/layers/role/web", facts)];
            kept.add(pointer, KEEPER, &layers);

            let found = kept.touched(&path("/a")).all(|(_, kept)| kept.seen_under().is_some());

            assert_eq!(found, is_seen, "{pointer} {layers:?}");
            assert!(kept.is_alike(&layers));
        }
    }

    #[test]
    fn a_site_depends_on_which_layers_with_kept_facts_the_host_has() {
        let (mut kept, web) = (KeptFacts::default(), layer("/layers/role/web", json!({})));
        for role in ["web", "db~1sql"] {
            kept.add(&format!("/layers/role/{role}/a"), KEEPER, std::slice::from_ref(&web));
        }

        let more = |pointer| vec![web.clone(), layer(pointer, json!({}))];
        for layers in [vec![web.clone()], more("/layers/role/other")] {
            assert!(kept.is_alike(&layers), "{layers:?}");
        }
        for layers in [more("/layers/role/db~1sql"), Vec::new()] {
            assert!(!kept.is_alike(&layers), "{layers:?}");
        }
        assert_eq!(kept.touched(&path("/a")).count(), 1);
    }

    #[test]
    fn a_site_stays_the_same_when_a_fact_that_is_kept_in_a_layer_is_written() {
        let (mut kept, web) = (KeptFacts::default(), "/layers/role/web");
        kept.add("/layers/role/web/a", KEEPER, &[layer(web, json!({}))]);

        assert!(kept.is_alike(&[layer(web, json!({"a": 1}))]));
    }

    #[test]
    fn a_layer_is_merged_over_what_a_resource_keeps() {
        for (kept, over_it, expected) in [
            (json!({"x": 1, "y": 2}), json!({"y": 3, "z": 4}), json!({"x": 1, "y": 3, "z": 4})),
            (json!({"x": {"y": 1}}), json!({"x": {"z": 2}}), json!({"x": {"y": 1, "z": 2}})),
            (json!(5), json!({"y": 3}), json!({"y": 3})),
        ] {
            let layers = [
                layer("/layers/role/web", json!({"other": 1})),
                layer("/layers/host/one/facts", json!({"a": {"b": over_it}})),
            ];
            let (path, alias, keeper) = (path("/a/b"), "keep".to_owned(), "keep".to_owned());
            let over = over(&layers, &path).unwrap_or_default();
            let fact = UsedFact { path, keeper, alias, over, is_secret: false };

            let seen = fact.seen(Value::from(Serde(&kept)));

            assert_eq!(serde_json::to_value(seen).ok(), Some(expected), "{kept}");
        }
    }

    #[test]
    fn a_fact_takes_the_place_of_what_was_there() {
        for (facts, expected) in [
            (json!({}), json!({"a": {"b": 1}})),
            (json!({"a": 5, "c": 2}), json!({"a": {"b": 1}, "c": 2})),
            (json!({"a": {"b": {"d": 3}, "e": 4}}), json!({"a": {"b": 1, "e": 4}})),
        ] {
            let with = with_fact(&Value::from(Serde(&facts)), &path("/a/b"), 1.into());

            assert_eq!(serde_json::to_value(with).ok(), Some(expected), "{facts}");
        }
    }
}
