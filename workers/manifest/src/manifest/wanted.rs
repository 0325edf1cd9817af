//! The parts of each resource's state that its dependents use.
//!
//! A dependent whose uses are not all known counts as one that uses the whole state: a template file may be another
//! one when it is rendered, and a kind reads the states of the parts of its resource.

use std::collections::{BTreeSet, HashMap, HashSet};

use crankcase_resources::Declaration;
use crankcase_resources::front::{Dependency, Wanted, is_part_alias};

use crate::manifest::config::Template;
use crate::manifest::kept_facts::VALUE;
use crate::manifest::placed::Placed;

/// Sets for each resource the part of its state that its dependents use.
pub(crate) fn tell_wanted(declarations: &mut [Declaration], resources: &[Placed]) {
    let mut wanted: HashMap<String, Wanted> = HashMap::new();
    for (declaration, Placed { template, claimed, .. }) in declarations.iter().zip(resources) {
        let Template { used, aliases, .. } = &**template;
        let items = aliases.iter().flat_map(|alias| alias.items().map(|item| (item, &alias.name)));
        let groups: HashMap<&str, &String> = items.collect();
        let written: HashSet<&str> =
            template.kept_facts.iter().map(|it| it.alias.as_str()).collect();
        for Dependency { alias, resource, .. } in &declaration.dependencies {
            let is_fact_used = written.contains(alias.as_str());
            let alias = groups.get(alias.as_str()).copied().unwrap_or(alias);
            let more = match used.states.get(alias) {
                _ if claimed.renders_any || used.all_states => Wanted::Whole,
                Some(used) => used.clone(),
                // The kind itself reads the states of the parts.
                None if is_part_alias(alias) => Wanted::Whole,
                None => Wanted::nothing(),
            };
            let wanted = wanted.entry(resource.clone()).or_insert_with(Wanted::nothing);
            wanted.add(more);
            if is_fact_used {
                wanted.add(Wanted::Attributes(BTreeSet::from([VALUE.to_owned()])));
            }
        }
    }
    for declaration in declarations {
        declaration.wanted = wanted.remove(&declaration.name).unwrap_or_else(Wanted::nothing);
    }
}
