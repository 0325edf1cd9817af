//! Facts in layers: those of the site, of the roles of a host, and of one host.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value;

use crate::pointer::Pointer;
use crate::tree::{Members, Node, Tree};
use crate::violation::Violation;

/// The name of the map of layers, at the root of the facts.
pub const LAYERS: &str = "layers";

/// One of the layers that a host sees, and its facts at a path.
#[derive(Debug, Clone, PartialEq)]
pub struct Layer {
    /// The name: `site`, `role NAME` or `host NAME`.
    pub name: String,
    /// The path of these facts in the stored facts.
    pub at: Pointer,
    /// The facts that the layer sets; none if it sets nothing.
    pub facts: Option<Tree>,
    /// Whether `facts` is a value above the path. A host that sees this value has nothing at the path.
    pub is_above: bool,
}

/// Returns the facts that a host sees: those of the site, then those of its roles in order, then its own.
///
/// Each layer goes over the layers before it: maps are merged, and any other value is replaced. Roles are at
/// `/layers/role/NAME`. Hosts are at `/layers/host/NAME`, as `{roles: [...], facts: {...}}`. For a host without a
/// layer, or without a host, returns the facts of the site.
pub fn effective(facts: &Tree, host: Option<&str>) -> Tree {
    if facts.at(&layers()).is_none() {
        return facts.clone();
    }
    let mut effective = facts.clone();
    effective.remove(&layers());
    for layer in of_host(facts, host).into_iter().skip(1) {
        if let Some(over) = layer.facts {
            effective.0 = overlaid(&effective.0, &over.0);
        }
    }
    effective
}

/// Returns the facts of each layer of a host at a path, lowest priority first.
pub fn explain(facts: &Tree, host: Option<&str>, path: &Pointer) -> Vec<Layer> {
    let layers = of_host(facts, host).into_iter();
    let said = layers.map(|layer| {
        let is_layers = layer.at.is_root() && path.segments().next() == Some(LAYERS);
        let facts = layer.facts.filter(|_| !is_layers).unwrap_or_default();
        // The first value above the path that is no map; if there is none, the value at the path.
        let way = (1..path.parts().len()).map(|end| path.up_to(end));
        let mut way = way.filter(|_| facts.at(path).is_none());
        let above = way.find(|at| facts.at(at).is_some_and(|it| !it.is_map()));
        let (at, is_above) = match above {
            Some(above) => (above, true),
            None => (path.clone(), false),
        };
        Layer { facts: facts.at(&at), at: at.below(&layer.at), is_above, ..layer }
    });
    said.collect()
}

/// Returns the place in the stored facts that sets the value that a host sees at `path`. Takes the layer with the
/// longest part of the path; of several such layers, the one with the highest priority.
pub(crate) fn set_by(facts: &Tree, host: &str, path: &Pointer) -> Pointer {
    let depth = |layer: &Layer| {
        let said = layer.facts.as_ref();
        let ends = (0..=path.parts().len()).rev();
        ends.into_iter().find(|end| said.is_some_and(|said| said.at(&path.up_to(*end)).is_some()))
    };
    // If several are equal, `max_by_key` returns the last one.
    let best = of_host(facts, Some(host)).into_iter().max_by_key(depth);
    best.map_or_else(|| path.clone(), |layer| path.below(&layer.at))
}

/// Returns the hosts that have a layer.
pub(crate) fn hosts(facts: &Tree) -> Vec<String> {
    let hosts = facts.at(&layers().join("host"));
    hosts.iter().flat_map(Tree::names).map(str::to_owned).collect()
}

/// Returns the violations in the form of the layers.
pub(crate) fn check(facts: &Tree) -> Vec<Violation> {
    let Some(all) = facts.at(&layers()) else { return Vec::new() };
    let mut violations = Vec::new();
    if !all.is_map() {
        violations.push(Violation::of_fact(&layers(), "layers are a map of \"role\" and \"host\""));
    }
    for name in all.names().filter(|name| !matches!(*name, "role" | "host")) {
        let message = "a layer is that of a \"role\" or of a \"host\"";
        violations.push(Violation::of_fact(&layers().join(name), message));
    }
    let roles = all.at(&Pointer::root().join("role")).unwrap_or_default();
    for role in roles.names() {
        let path = Pointer::root().join(role);
        if !roles.at(&path).is_some_and(|layer| layer.is_map()) {
            let path = path.below(&layers().join("role"));
            violations.push(Violation::of_fact(&path, "the layer of a role is a map of facts"));
        }
    }
    for host in hosts(facts) {
        let path = layers().join("host").join(&host);
        check_host((&path, &facts.at(&path).unwrap_or_default()), &roles, &mut violations);
    }
    violations
}

fn check_host((path, layer): (&Pointer, &Tree), roles: &Tree, violations: &mut Vec<Violation>) {
    for key in layer.names().filter(|key| !matches!(*key, "roles" | "facts")) {
        let message = "the layer of a host has \"roles\" and \"facts\"";
        violations.push(Violation::of_fact(&path.join(key), message));
    }
    if !layer.is_map() {
        violations.push(Violation::of_fact(
            path,
            "the layer of a host is a map of \"roles\" and \"facts\"",
        ));
    }
    let member = |name: &str| layer.at(&Pointer::root().join(name));
    if member("facts").is_some_and(|facts| !facts.is_map()) {
        violations.push(Violation::of_fact(&path.join("facts"), "the facts of a host are a map"));
    }
    let path = path.join("roles");
    match member("roles").map(|named| named.to_value()) {
        None => {}
        Some(Value::Array(named)) => {
            let is_known =
                |role: &Value| role.as_str().is_some_and(|role| roles.names().any(|it| it == role));
            for (index, role) in named.iter().enumerate().filter(|(_, role)| !is_known(role)) {
                let at = path.join(&index.to_string());
                let violation = Violation::of_fact(&at, "there is no such role at /layers/role");
                violations.push(violation.value(role));
            }
        }
        Some(_) => violations.push(Violation::of_fact(&path, "roles are a list of names")),
    }
}

pub(crate) fn layers() -> Pointer {
    Pointer::root().join(LAYERS)
}

/// Returns the layers of a host, lowest priority first.
fn of_host(facts: &Tree, host: Option<&str>) -> Vec<Layer> {
    let layer =
        |name: String, at: Pointer| Layer { name, facts: facts.at(&at), at, is_above: false };
    let mut all = vec![layer("site".to_owned(), Pointer::root())];
    let Some(host) = host else { return all };
    let at = layers().join("host").join(host);
    let roles = facts.at(&at.join("roles")).map(|roles| roles.to_value());
    for role in roles.as_ref().and_then(Value::as_array).into_iter().flatten() {
        let role = role.as_str().unwrap_or_default();
        all.push(layer(format!("role {role}"), layers().join("role").join(role)));
    }
    all.push(layer(format!("host {host}"), at.join("facts")));
    all
}

/// Returns `under` with `over` laid over it: maps are merged, and any other value is replaced.
fn overlaid(under: &Node, over: &Node) -> Node {
    let (Node::Map(under), Node::Map(over)) = (under, over) else { return over.clone() };
    let mut members: Members = BTreeMap::clone(under);
    for (name, over) in &**over {
        let merged = match members.get(name) {
            Some(under) => overlaid(under, over),
            None => over.clone(),
        };
        members.insert(name.clone(), merged);
    }
    Node::Map(Arc::new(members))
}
