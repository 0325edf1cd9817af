//! The facts that have changed since the site before, as the reasons of declarations.

use std::collections::BTreeSet;
use std::sync::Arc;

use crankcase_resources::{Claimed, Declaration};

use crate::manifest::before::SiteBefore;
use crate::manifest::globals::AllGlobals;
use crate::manifest::kept_facts::Path;
use crate::manifest::placed::Placed;
use crate::manifest::structure::Structure;
use crate::manifest::tuning::TUNINGS;
use crate::manifest::used::named_facts;

/// Names, for each resource, the facts that have changed since the site before and decide about it.
/// They have to decide about it in the site before as well, so that no fact is named for a change
/// that an edit of the manifest has made.
pub(crate) fn name_facts(
    (declarations, placed): (&mut [Declaration], &[Arc<Placed>]),
    (globals, structure): (&AllGlobals, &Structure),
    before: &SiteBefore<'_>,
) {
    let changed = before.globals.changed_facts(globals.facts());
    if changed.is_empty() {
        return;
    }
    let deciding = |name: &str| before.structure.shared(structure, name);
    let there = |name: &str| of_item(name, deciding(name).there, &changed);
    let behind = |globals: &AllGlobals, placed: &Placed| {
        globals.vars_of_facts().behind(&placed.template.used)
    };
    for (declaration, placed) in declarations.iter_mut().zip(placed) {
        let named = match before.named(&declaration.name) {
            None => named_facts(&there(&declaration.name), &changed),
            Some((kept, at)) => {
                let mut facts = &behind(before.globals, at) & &behind(globals, placed);
                if at.template.item != placed.template.item {
                    facts.extend(there(&declaration.name));
                }
                if is_kept_otherwise(kept, declaration) {
                    facts.extend(deciding(&declaration.name).kept);
                    facts.insert(TUNINGS.map(str::to_owned).to_vec());
                }
                for name in other_dependencies(kept, declaration) {
                    facts.extend(there(name));
                }
                named_for(&facts, &placed.claimed, &changed)
            }
        };
        if !named.is_empty() {
            declaration.changed_facts = named;
        }
    }
}

/// Returns the facts to name for a resource: those that it uses and that have changed. If there are
/// none, and it renders files, which may use any fact, returns the first of all changed facts.
pub(crate) fn named_for(
    used: &BTreeSet<Path>,
    claimed: &Claimed,
    changed: &BTreeSet<Path>,
) -> Vec<String> {
    let named = named_facts(used, changed);
    match named.is_empty() && claimed.renders_any {
        true => named_facts(&BTreeSet::from([Path::new()]), changed),
        false => named,
    }
}

/// Returns the facts that decide about a resource. Of a map with the item of the resource, returns only that item if it
/// has changed.
fn of_item(name: &str, facts: BTreeSet<Path>, changed: &BTreeSet<Path>) -> BTreeSet<Path> {
    let item = name.strip_suffix(']').and_then(|name| name.split_once('['));
    let item = item.and_then(|(_, item)| serde_json::from_str::<String>(item).ok());
    let Some(item) = item else { return facts };
    let of_item = facts.into_iter().map(|fact| {
        let own: Path = fact.iter().chain([&item]).cloned().collect();
        let next = changed.range(own.clone()..).next();
        if next.is_some_and(|next| next.starts_with(&own)) { own } else { fact }
    });
    of_item.collect()
}

/// Returns whether two declarations of a resource differ in its type or in how it is kept.
fn is_kept_otherwise(one: &Declaration, other: &Declaration) -> bool {
    let settings =
        |it: &Declaration| (it.noop, it.readonly, it.reverse, it.poll, it.timeout, it.repairs);
    settings(one) != settings(other) || one.kind != other.kind || one.backoff != other.backoff
}

/// Returns the names of the resources on which only one of two declarations depends.
fn other_dependencies<'a>(one: &'a Declaration, other: &'a Declaration) -> Vec<&'a str> {
    let names = |it: &'a Declaration| -> BTreeSet<&'a str> {
        it.dependencies.iter().map(|used| used.resource.as_str()).collect()
    };
    names(one).symmetric_difference(&names(other)).copied().collect()
}
