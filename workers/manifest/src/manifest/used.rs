//! What expressions use.

use std::collections::{BTreeMap, BTreeSet};

use crankcase_resources::Wanted;

/// What the expressions of one place use.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Used {
    /// The variables, each by its name.
    pub(crate) vars: BTreeSet<String>,
    /// Whether all variables are used as one value.
    pub(crate) all_vars: bool,
    /// Whether the states of all dependencies are used as one value.
    pub(crate) all_states: bool,
    /// What of the states of single dependencies is used, by alias.
    pub(crate) states: BTreeMap<String, Wanted>,
    /// Whether anything of the host is used.
    pub(crate) host: bool,
    /// The facts that are used: the names that lead to each, none of them for all.
    pub(crate) facts: BTreeSet<Vec<String>>,
    /// The secrets of variables and facts that are used, as expressions name them.
    pub(crate) secrets: BTreeSet<String>,
}

impl Used {
    /// Returns what uses all that there is.
    pub(crate) fn all() -> Self {
        let facts = BTreeSet::from([Vec::new()]);
        Self { all_vars: true, host: true, facts, ..Self::default() }
    }

    /// Returns this and what is used elsewhere.
    pub(crate) fn and(mut self, other: Self) -> Self {
        self.vars.extend(other.vars);
        self.secrets.extend(other.secrets);
        for (alias, wanted) in other.states {
            self.states.entry(alias).or_insert_with(Wanted::nothing).add(wanted);
        }
        self.all_vars |= other.all_vars;
        self.all_states |= other.all_states;
        self.host |= other.host;
        self.facts.extend(other.facts);
        self
    }

    /// Returns the names of all variables that are used, directly or by way of others. `vars` has what each of
    /// them uses.
    pub(crate) fn vars_in_turn<'a>(
        &'a self,
        vars: &'a BTreeMap<String, Self>,
    ) -> BTreeSet<&'a str> {
        let (mut names, mut next) = (BTreeSet::new(), vec![self]);
        while let Some(used) = next.pop() {
            let all = vars.keys().filter(|_| used.all_vars);
            for name in used.vars.iter().chain(all) {
                if names.insert(name.as_str()) {
                    next.extend(vars.get(name));
                }
            }
        }
        names
    }

    /// Returns whether any of these variables is used.
    pub(crate) fn uses_any(&self, vars: &BTreeSet<String>) -> bool {
        (self.all_vars && !vars.is_empty()) || self.vars.iter().any(|var| vars.contains(var))
    }
}

/// Returns whether one of two ways to a value, of the names that lead there, leads to the other.
pub(crate) fn is_on_the_way(one: &[String], other: &[String]) -> bool {
    one.iter().zip(other).all(|(one, other)| one == other)
}
