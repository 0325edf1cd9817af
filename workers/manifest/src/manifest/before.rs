//! The treatment of resources that are wrong because of facts.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::sync::Arc;

use crankcase_resources::Declaration;
use crankcase_resources::front::{DeclaredPart, Dependency, is_part_alias};
use serde_json::Map;

use crate::manifest::globals::AllGlobals;
use crate::manifest::placed::Placed;
use crate::manifest::problem::FactProblems;
use crate::manifest::resource::Item;
use crate::manifest::structure::Structure;

/// The treatment of a resource that is wrong because of facts.
#[derive(Debug, Clone, Copy)]
pub(crate) enum IfFactsAreWrong<'a> {
    /// Its manifest is refused.
    Refuse,
    /// It stays what it was in the site before, if there is one.
    Keep(Option<&'a SiteBefore<'a>>),
}

impl<'a> IfFactsAreWrong<'a> {
    /// Returns the treatment of its problems while its manifest is loaded.
    pub(crate) fn fact_problems(self) -> FactProblems {
        match self {
            Self::Refuse => FactProblems::Told,
            Self::Keep(_) => FactProblems::Deferred,
        }
    }

    /// Returns the site before.
    pub(crate) fn before(self) -> Option<&'a SiteBefore<'a>> {
        match self {
            Self::Keep(before) => before,
            Self::Refuse => None,
        }
    }
}

/// The resources of the site before.
pub(crate) struct SiteBefore<'a> {
    resources: HashMap<&'a str, (&'a Declaration, &'a Placed)>,
    pub(crate) globals: &'a AllGlobals,
    pub(crate) structure: &'a Structure,
    states: &'a HashMap<String, minijinja::Value>,
}

/// Shows no states.
impl fmt::Debug for SiteBefore<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SiteBefore").finish_non_exhaustive()
    }
}

impl<'a> SiteBefore<'a> {
    pub(crate) fn new(
        (declarations, placed): (&'a [Declaration], &'a [Arc<Placed>]),
        (globals, structure): (&'a AllGlobals, &'a Structure),
        states: &'a HashMap<String, minijinja::Value>,
    ) -> Self {
        let both = declarations.iter().zip(placed);
        let resources = both.map(|(it, placed)| (it.name.as_str(), (it, &**placed))).collect();
        Self { resources, globals, structure, states }
    }

    /// Returns a resource of any type.
    pub(crate) fn named(&self, name: &str) -> Option<(&'a Declaration, &'a Placed)> {
        self.resources.get(name).copied()
    }

    /// Returns a resource of this type.
    pub(crate) fn resource(&self, name: &str, kind: &str) -> Option<(&'a Declaration, &'a Placed)> {
        self.named(name).filter(|(declaration, _)| declaration.kind == kind)
    }

    /// Gives a resource the claims that it had in the site before.
    pub(crate) fn keep(&self, declaration: &mut Declaration, placed: &mut Placed) {
        if let Some((kept, at)) = self.resource(&declaration.name, &declaration.kind) {
            placed.claimed = at.claimed.clone();
            declaration.claims.clone_from(&kept.claims);
            declaration.is_claimed = kept.is_claimed;
            declaration.is_unsure |= kept.is_unsure;
        }
    }

    /// Gives a resource the settings that it had in the site before.
    pub(crate) fn keep_settings(&self, declaration: &mut Declaration) {
        let Some((kept, _)) = self.resource(&declaration.name, &declaration.kind) else { return };
        (declaration.noop, declaration.readonly) = (kept.noop, kept.readonly);
        (declaration.poll, declaration.timeout) = (kept.poll, kept.timeout);
        declaration.reverse = kept.reverse;
        declaration.has_automatic_edges = kept.has_automatic_edges;
    }

    /// Returns whether a resource has the claims that it had in the site before.
    pub(crate) fn has_claims_of(&self, declaration: &Declaration) -> bool {
        let kept = self.resource(&declaration.name, &declaration.kind);
        kept.is_some_and(|(kept, _)| kept.claims == declaration.claims)
    }

    /// Makes a resource depend on the parts that it had, and returns them; none if the site before
    /// had no such resource.
    pub(crate) fn parts(&self, declaration: &mut Declaration) -> Option<Vec<DeclaredPart>> {
        let (kept, _) = self.resource(&declaration.name, &declaration.kind)?;
        declaration.dependencies.retain(|used| !is_part_alias(&used.alias));
        declaration.dependencies.extend(on_parts(kept).cloned());
        let (mut parts, mut names, mut open) = (Vec::new(), HashSet::new(), vec![kept]);
        // A part depends on its own parts, and on others of its owner.
        while let Some(owner) = open.pop() {
            for used in on_parts(owner).filter(|used| names.insert(used.resource.as_str())) {
                if let Some((part, placed)) = self.resources.get(used.resource.as_str()) {
                    let (mut declaration, claimed) = ((*part).clone(), placed.claimed.clone());
                    if !declaration.changed_facts.is_empty() {
                        declaration.changed_facts = Vec::new();
                    }
                    parts.push(DeclaredPart { declaration, claimed, state: Map::new() });
                    open.push(*part);
                }
            }
        }
        Some(parts)
    }

    /// Returns the known part of a resource's state in the site before.
    pub(crate) fn state(&self, name: &str) -> Option<&minijinja::Value> {
        self.states.get(name)
    }

    /// Returns the items for which there was a resource, in the order of the names.
    pub(crate) fn items(&self, name: &str) -> Vec<Item> {
        let of_name = |it: &&str| it.split_once('[').is_some_and(|(base, _)| base == name);
        let mut names: Vec<&str> = self.resources.keys().copied().filter(of_name).collect();
        names.sort_unstable();
        let parts = names.into_iter().filter(|name| !self.resources[name].1.is_part);
        parts.filter_map(|name| self.resources[name].1.template.item.clone()).collect()
    }
}

/// Returns the parts that a resource depends on.
fn on_parts(declaration: &Declaration) -> impl Iterator<Item = &Dependency> {
    declaration.dependencies.iter().filter(|used| is_part_alias(&used.alias))
}
