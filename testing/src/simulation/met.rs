//! The paths that the runs have met, to find paths that no run has or that never came up.

use std::collections::{BTreeMap, BTreeSet};

/// The paths that were met in one or several runs.
#[derive(Debug, Clone, Default)]
pub(super) struct Met {
    /// The paths at which something was installed.
    pub(super) known: BTreeSet<String>,
    /// The paths that were asked for or named while nothing was installed there.
    pub(super) unknown: BTreeSet<String>,
    /// The paths of the setup's own manifolds that have come up.
    pub(super) up: BTreeSet<String>,
    /// The paths of the setup's own manifolds that should have come up and have not, each with the
    /// reason and the seed.
    pub(super) idle: BTreeMap<String, (String, u64)>,
}

impl Met {
    /// Adds the paths that were met in the run of a seed.
    pub(super) fn add(&mut self, seed: u64, met: &Self) {
        self.known.extend(met.known.iter().cloned());
        self.unknown.extend(met.unknown.iter().cloned());
        self.up.extend(met.up.iter().cloned());
        for (path, (why, _)) in &met.idle {
            self.idle.entry(path.clone()).or_insert_with(|| (why.clone(), seed));
        }
    }

    /// Returns a path that was asked for and that no worker has.
    pub(super) fn nobodys(&self) -> Option<&str> {
        self.unknown.difference(&self.known).next().map(String::as_str)
    }

    /// Returns the paths that should have come up and have not, each with the seed of such a run.
    pub(super) fn idle(&self) -> impl Iterator<Item = (&str, u64)> {
        let idle = self.idle.iter().filter(|(path, _)| !self.up.contains(*path));
        idle.map(|(path, (_, seed))| (&**path, *seed))
    }

    /// Returns the reason why a path has not come up, if it has not.
    pub(super) fn why_idle(&self, path: &str) -> Option<&str> {
        self.idle.get(path).map(|(why, _)| &**why)
    }
}
