//! The names that decide which resources there are, how they hang together and how they are kept.

use std::collections::{BTreeMap, BTreeSet};

use crate::manifest::globals::AllGlobals;
use crate::manifest::kept_facts::Path;
use crate::manifest::tuning::TUNINGS;
use crate::manifest::used::Used;

/// The names that a step of the load uses to decide about resources.
#[derive(Debug, Default)]
pub(crate) struct Deciding {
    /// All of them.
    pub(crate) used: Used,
    /// The names that decide about one resource, by the name of the resource as it is written.
    of_resources: BTreeMap<String, Used>,
}

impl Deciding {
    /// Adds names that decide about a resource.
    pub(crate) fn add(&mut self, resource: &str, used: &Used) {
        if used.has_globals() {
            let of_resource = self.of_resources.entry(resource.to_owned()).or_default();
            *of_resource = std::mem::take(of_resource).and(used.clone());
        }
        self.used = std::mem::take(&mut self.used).and(used.clone());
    }
}

/// The facts that decide about a resource as it is written.
#[derive(Debug, Default)]
pub(crate) struct DecidingFacts {
    /// The facts that decide whether it is there, and for which items.
    pub(crate) there: BTreeSet<Path>,
    /// The facts that decide its type, its dependencies and how it is kept.
    pub(crate) kept: BTreeSet<Path>,
}

/// The names that decide which resources there are, how they hang together and how they are kept.
#[derive(Debug)]
pub(crate) struct Structure {
    /// All these names: if the value of one changes, there may be another site.
    pub(crate) used: Used,
    of_resources: BTreeMap<String, DecidingFacts>,
}

impl Structure {
    /// Returns the names that are used before a resource is read, for its `when` and `for_each`, and
    /// for rules.
    pub(crate) fn new(
        at_load: Deciding,
        expanded: Deciding,
        of_rules: Used,
        globals: &AllGlobals,
    ) -> Self {
        let vars = globals.vars_of_facts();
        let mut of_resources = BTreeMap::<String, DecidingFacts>::new();
        for (name, used) in at_load.of_resources {
            of_resources.entry(name).or_default().kept = vars.behind(&used);
        }
        for (name, used) in expanded.of_resources {
            of_resources.entry(name).or_default().there = vars.behind(&used);
        }
        let used = at_load.used.and(expanded.used).and(of_rules).and(Used::facts_at(TUNINGS));
        Self { used, of_resources }
    }

    /// Returns the facts that decide about a resource here and in another structure.
    pub(crate) fn shared(&self, other: &Self, resource: &str) -> DecidingFacts {
        let written = resource.split('[').next().unwrap_or_default();
        match (self.of_resources.get(written), other.of_resources.get(written)) {
            (Some(one), Some(other)) => {
                DecidingFacts { there: &one.there & &other.there, kept: &one.kept & &other.kept }
            }
            _ => DecidingFacts::default(),
        }
    }
}
