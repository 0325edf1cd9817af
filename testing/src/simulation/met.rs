//! The paths that the runs have met, to find those that no run has or that never came up.

use std::collections::{BTreeMap, BTreeSet};

/// Which paths were met in a run or in several ones.
#[derive(Debug, Clone, Default)]
pub(super) struct Met {
    /// Those that something was installed at.
    pub(super) known: BTreeSet<String>,
    /// Those that were asked for, or spoken of, and that nothing was installed at then.
    pub(super) unknown: BTreeSet<String>,
    /// Those of the setup's own manifolds that have come up.
    pub(super) up: BTreeSet<String>,
    /// Those of them that have not and should: why not, and in which run.
    pub(super) idle: BTreeMap<String, (String, u64)>,
}

impl Met {
    /// Adds what was met in the run of a seed.
    pub(super) fn add(&mut self, seed: u64, met: &Self) {
        self.known.extend(met.known.iter().cloned());
        self.unknown.extend(met.unknown.iter().cloned());
        self.up.extend(met.up.iter().cloned());
        for (path, (why, _)) in &met.idle {
            self.idle.entry(path.clone()).or_insert_with(|| (why.clone(), seed));
        }
    }

    /// Returns a path that was asked for and that nobody has.
    pub(super) fn nobodys(&self) -> Option<&str> {
        self.unknown.difference(&self.known).next().map(String::as_str)
    }

    /// Returns the paths that should have come up and have not, each with a seed of which that is so.
    pub(super) fn idle(&self) -> impl Iterator<Item = (&str, u64)> {
        let idle = self.idle.iter().filter(|(path, _)| !self.up.contains(*path));
        idle.map(|(path, (_, seed))| (&**path, *seed))
    }

    /// Returns why a path has not come up, if it has not.
    pub(super) fn why_idle(&self, path: &str) -> Option<&str> {
        self.idle.get(path).map(|(why, _)| &**why)
    }
}
