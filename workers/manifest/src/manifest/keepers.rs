//! Which resources keep which facts, found before it is known who depends on whom.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use crankcase_resources::KnownConfig;
use indexmap::IndexMap;
use serde_json::Value;

use crate::manifest::document::Written;
use crate::manifest::expression::{Budget, is_template};
use crate::manifest::globals::AllGlobals;
use crate::manifest::judging::Judging;
use crate::manifest::kept_facts::{KeptFacts, Path, path};
use crate::manifest::links::Links;
use crate::manifest::node::{Data, Entry};
use crate::manifest::problem::{Found, Problems};
use crate::manifest::rehearsal::declare;
use crate::manifest::resource::Draft;

/// Returns the paths of the facts that resources may keep, as far as they are written out: of a path with expressions
/// what is before the first one.
pub(crate) fn paths(resources: &IndexMap<String, Written>, kinds: &impl Judging) -> Vec<Path> {
    let text = |entry: &Entry| match &entry.value.data {
        Data::String(text) => Some(text.clone()),
        _ => None,
    };
    let pointer = |written: &Written| {
        let Data::Map(resource) = &written.node.data else { return None };
        let kind = text(resource.get("type")?)?;
        kinds.kind(&kind).filter(|kind| kind.keeps_facts())?;
        let Data::Map(config) = &resource.get("config")?.value.data else { return None };
        text(config.get("path")?)
    };
    let known = |pointer: String| match pointer.split_once('{') {
        Some((known, _)) if is_template(&pointer) => {
            path(known.rsplit_once('/').unwrap_or_default().0)
        }
        _ => path(&pointer),
    };
    resources.values().filter_map(pointer).map(known).collect()
}

/// Returns the facts that resources keep, as far as that needs no state of another resource. What is wrong with their
/// configs is found again when all of them are evaluated.
pub(crate) fn kept_facts(
    drafts: &[Draft],
    kinds: &impl Judging,
    (globals, layers): (&Arc<AllGlobals>, &[Arc<Value>]),
    values: usize,
) -> KeptFacts {
    let (mut kept, room) = (KeptFacts::default(), Arc::default());
    let (mut budget, mut untold) = (Budget::of_values(values), Problems::default());
    for (keeper, draft) in drafts.iter().enumerate() {
        // One of which it is not known whether it is there keeps nothing for sure.
        if draft.unsure.is_some() || kinds.kind(&draft.kind).is_none_or(|kind| !kind.keeps_facts())
        {
            continue;
        }
        let (mut declaration, placed) = declare(draft, Links::default(), globals, &room);
        let of_states = draft.uses.iter().filter(|(_, used)| used.uses_states());
        let of_states = of_states.map(|(attribute, _)| attribute.clone());
        let unknown: BTreeSet<String> = of_states.chain(draft.wrong.iter().cloned()).collect();
        let known = (&unknown, &HashMap::new());
        let mut found = Found::all(&mut untold);
        let (config, unknown) = placed.template.rehearse(known, &mut budget, &mut found);
        let known = KnownConfig { config: &config, unknown: &unknown };
        drop(kinds.declare(&mut declaration, &known));
        let claims = declaration.claims.iter();
        for claim in claims.filter(|claim| claim.space == "fact" && claim.is_made()) {
            kept.add(&claim.name, keeper, layers);
        }
    }
    kept
}
