//! Facts that would change themselves for ever.

use std::collections::{BTreeMap, BTreeSet};

use crankcase_resources::{Declaration, Edges, OnChange, Order};

use crate::manifest::beside::Placed;
use crate::manifest::problem::{Hint, Problems};

/// Names that lead to a fact.
type Path = Vec<String>;

/// Finds resources that keep a fact of which they are rendered, by themselves or by way of others: each look would
/// change it again. `of_vars` are the facts that variables use.
pub(crate) fn check_circles(
    (declarations, resources): (&[Declaration], &[Placed]),
    of_vars: &BTreeMap<String, BTreeSet<Path>>,
    problems: &mut Problems,
) {
    let mut keepers: BTreeMap<Path, usize> = BTreeMap::new();
    for (index, declaration) in declarations.iter().enumerate() {
        let claims = declaration.claims.iter().filter(|claim| claim.space == "fact");
        keepers.extend(claims.map(|claim| (path(&claim.name), index)));
    }
    let mut edges = Edges::new(declarations.len());
    for index in keepers.values() {
        let used = &resources[*index].template.used;
        let of_vars = of_vars.iter().filter(|(name, _)| used.all_vars || used.vars.contains(*name));
        for used in used.facts.iter().chain(of_vars.flat_map(|(_, facts)| facts)) {
            let above = (0..used.len()).filter_map(|end| keepers.get(&used[..end]));
            let within = keepers.range(used.clone()..).take_while(|(at, _)| at.starts_with(used));
            for keeper in above.chain(within.map(|(_, keeper)| keeper)) {
                edges.depends(*index, *keeper, OnChange::Check);
            }
        }
    }
    let Err(circles) = Order::from_edges(edges) else { return };
    for index in circles.iter().filter_map(|circle| circle.first()) {
        let Placed { template, offset, .. } = &resources[*index];
        let kept = declarations[*index].claims.iter().find(|claim| claim.space == "fact");
        let name = kept.map(|claim| claim.name.as_str()).unwrap_or_default();
        let message = "this fact is made of itself, and would change for ever";
        let hint = Hint::of(name).or("keep it at a path of which it is not made");
        problems.with_hint(&template.source, template.offset_of("path", *offset), message, hint);
    }
}

/// Returns the names that a JSON pointer leads through.
fn path(pointer: &str) -> Path {
    let names = pointer.split('/').skip(1);
    names.map(|name| name.replace("~1", "/").replace("~0", "~")).collect()
}
