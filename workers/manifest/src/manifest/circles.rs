//! Facts that depend on themselves.

use std::collections::BTreeMap;

use crankcase_resources::{Claim, Declaration, Edges, OnChange, Order};
use crankcase_workers::read_pointer_segment;

use crate::manifest::placed::Placed;
use crate::manifest::problem::{Hint, Problems};
use crate::manifest::used::Used;

/// The names that lead to a fact.
pub(crate) type Path = Vec<String>;

/// Reports resources that keep a fact on which their own config depends, directly or by way of variables and other
/// facts: each look at the resource may change the fact again. `vars` has what each variable uses.
pub(crate) fn check_circles(
    (declarations, resources): (&[Declaration], &[Placed]),
    vars: &BTreeMap<String, Used>,
    problems: &mut Problems,
) {
    let mut keepers: BTreeMap<Path, usize> = BTreeMap::new();
    for (index, declaration) in declarations.iter().enumerate() {
        let kept = |claim: &&Claim| claim.space == "fact" && claim.is_made();
        let claims = declaration.claims.iter().filter(kept);
        keepers.extend(claims.map(|claim| (path(&claim.name), index)));
    }
    if keepers.is_empty() {
        return;
    }
    let used: Vec<(usize, &Used)> =
        keepers.values().map(|index| (*index, &*resources[*index].template.used)).collect();
    let edges = edges((&keepers, declarations.len()), &used, vars);
    let Err(circles) = Order::from_edges(edges) else { return };
    for circle in circles {
        let mut kept = circle.iter().filter(|node| **node < declarations.len());
        let Some(index) = kept.next() else { continue };
        let Placed { template, offset, .. } = &resources[*index];
        let claim = declarations[*index].claims.iter().find(|claim| claim.space == "fact");
        let name = claim.map(|claim| claim.name.as_str()).unwrap_or_default();
        let message = "this fact depends on itself, and may change for ever";
        let hint = Hint::of(name).or("keep it at a path on which it does not depend");
        problems.with_hint(&template.source, template.offset_of("path", *offset), message, hint);
    }
}

/// Returns the dependencies between resources, variables and facts.
///
/// The nodes are the resources, then the variables, then one node for all variables together, then the facts that are
/// used. So there are no more edges than the manifest has words.
fn edges<'a>(
    (keepers, resources): (&BTreeMap<Path, usize>, usize),
    used: &[(usize, &'a Used)],
    vars: &'a BTreeMap<String, Used>,
) -> Edges {
    let var_nodes: BTreeMap<&str, usize> =
        vars.keys().map(String::as_str).zip(resources..).collect();
    let all_vars = resources + vars.len();
    let users = vars.values().enumerate().map(|(index, used)| (resources + index, used));
    let users: Vec<(usize, &Used)> = used.iter().copied().chain(users).collect();
    let facts: BTreeMap<&[String], usize> = BTreeMap::new();
    let mut facts =
        users.iter().flat_map(|(_, used)| &used.facts).fold(facts, |mut facts, path| {
            let next = all_vars + 1 + facts.len();
            facts.entry(path.as_slice()).or_insert(next);
            facts
        });
    let mut edges = Edges::new(all_vars + 1 + facts.len());
    let mut depends = |node: usize, used: usize| edges.depends(node, used, OnChange::Check);
    var_nodes.values().for_each(|var| depends(all_vars, *var));
    for (node, used) in users {
        used.vars
            .iter()
            .filter_map(|var| var_nodes.get(var.as_str()))
            .for_each(|var| depends(node, *var));
        if used.all_vars {
            depends(node, all_vars);
        }
        used.facts
            .iter()
            .filter_map(|path| facts.get(path.as_slice()))
            .for_each(|fact| depends(node, *fact));
    }
    for (path, fact) in std::mem::take(&mut facts) {
        let above = (0..path.len()).filter_map(|end| keepers.get(&path[..end]));
        let within = keepers.range(path.to_vec()..).take_while(|(at, _)| at.starts_with(path));
        above.chain(within.map(|(_, keeper)| keeper)).for_each(|keeper| depends(fact, *keeper));
    }
    edges
}

/// Returns the names in a JSON pointer. For a path in a layer, returns the path of the fact that the layer sets.
pub(crate) fn path(pointer: &str) -> Path {
    let names = pointer.split('/').skip(1);
    let mut names: Path =
        names.map(|name| read_pointer_segment(name).unwrap_or_default().into_owned()).collect();
    let is = |index: usize, name: &str| names.get(index).is_some_and(|it| it == name);
    let above = match is(0, "layers") {
        true if is(1, "role") => 3,
        true if is(1, "host") && is(3, "facts") => 4,
        _ => 0,
    };
    names.split_off(above.min(names.len()))
}
