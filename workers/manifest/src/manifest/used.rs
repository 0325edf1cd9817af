//! The names that expressions use.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;

use crankcase_resources::front::Wanted;
use crankcase_workers::pointer_segment;

/// The most facts that are named as the reason of a declaration.
const NAMED: usize = 7;

/// The names that the expressions of one place use.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Used {
    /// The variables, each by its name.
    pub(crate) vars: BTreeSet<String>,
    /// Whether all variables are used as one value.
    pub(crate) all_vars: bool,
    /// Whether the states of all dependencies are used as one value.
    pub(crate) all_states: bool,
    /// The used parts of the states of single dependencies, by alias.
    pub(crate) states: BTreeMap<String, Wanted>,
    /// Whether anything of the host is used.
    pub(crate) host: bool,
    /// Whether anything of the item is used.
    pub(crate) item: bool,
    /// The facts that are used: the names that lead to each, or no names for all facts.
    pub(crate) facts: BTreeSet<Vec<String>>,
    /// The secrets of variables and facts that are used, as expressions name them.
    pub(crate) secrets: BTreeSet<String>,
}

impl Used {
    /// Returns the use of all names.
    pub(crate) fn all() -> Self {
        let facts = BTreeSet::from([Vec::new()]);
        Self { all_vars: true, host: true, facts, ..Self::default() }
    }

    /// Returns whether a variable, the host or a fact is used.
    pub(crate) fn has_globals(&self) -> bool {
        self.all_vars || self.host || !self.vars.is_empty() || !self.facts.is_empty()
    }

    /// Returns the use of the facts to which some names lead.
    pub(crate) fn facts_at(names: [&str; 2]) -> Self {
        let facts = BTreeSet::from([names.map(str::to_owned).to_vec()]);
        Self { facts, ..Self::default() }
    }

    /// Returns these names and those that are used elsewhere.
    pub(crate) fn and(mut self, other: Self) -> Self {
        self.vars.extend(other.vars);
        self.secrets.extend(other.secrets);
        for (alias, wanted) in other.states {
            self.states.entry(alias).or_insert_with(Wanted::nothing).add(wanted);
        }
        self.all_vars |= other.all_vars;
        self.all_states |= other.all_states;
        self.host |= other.host;
        self.item |= other.item;
        self.facts.extend(other.facts);
        self
    }

    /// Returns the names of all variables that are used, directly or by way of others. `vars` has
    /// the names that each variable uses.
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

    /// Returns the facts that are used, directly or by way of variables. `vars` has the names that
    /// each variable uses.
    pub(crate) fn facts_in_turn(&self, vars: &BTreeMap<String, Self>) -> BTreeSet<Vec<String>> {
        let by_way = self.vars_in_turn(vars).into_iter().filter_map(|name| vars.get(name));
        by_way.chain([self]).flat_map(|used| used.facts.iter().cloned()).collect()
    }

    /// Returns these names and all that are used by way of variables. `vars` has the names that
    /// each variable uses.
    pub(crate) fn in_turn(&self, vars: &BTreeMap<String, Self>) -> Self {
        let names = self.vars_in_turn(vars);
        let used = names.iter().filter_map(|name| vars.get(*name)).cloned();
        let mut all = used.fold(self.clone(), Self::and);
        all.vars.extend(names.into_iter().map(str::to_owned));
        all
    }

    /// Returns these names without these facts, without anything in them, and without these
    /// variables.
    pub(crate) fn without(&self, facts: &BTreeSet<Vec<String>>, vars: &BTreeSet<String>) -> Self {
        let mut others = self.clone();
        others.facts.retain(|used| !facts.iter().any(|fact| used.starts_with(fact)));
        others.vars.retain(|used| !vars.contains(used));
        others
    }

    /// Returns whether any state of a dependency is used.
    pub(crate) fn uses_states(&self) -> bool {
        self.all_states || !self.states.is_empty()
    }

    /// Returns whether any of these facts is used, or what is in one of them or around it.
    pub(crate) fn uses_facts(&self, facts: &BTreeSet<Vec<String>>) -> bool {
        self.facts.iter().any(|used| is_any_on_the_way(facts, used))
    }

    /// Returns whether it follows from facts: it uses some, or uses one of these variables, which
    /// follow from facts.
    pub(crate) fn follows_facts(&self, vars: &BTreeSet<String>) -> bool {
        !self.facts.is_empty() || self.uses_any(vars)
    }

    /// Returns whether any of these variables is used.
    pub(crate) fn uses_any(&self, vars: &BTreeSet<String>) -> bool {
        (self.all_vars && !vars.is_empty()) || self.vars.iter().any(|var| vars.contains(var))
    }
}

/// The names that the template files of a resource and of its parts use.
#[derive(Debug, Clone, Default)]
pub(crate) struct UsedByFiles {
    /// The names that the files of the resource itself use.
    pub(crate) own: Used,
    /// The names that the files of each part use, by the name of the part.
    pub(crate) of_parts: BTreeMap<String, Used>,
}

/// Returns the first of some changed facts that are used, or are in a used one or around it, as JSON
/// pointers: 7 at most.
pub(crate) fn named_facts(
    used: &BTreeSet<Vec<String>>,
    changed: &BTreeSet<Vec<String>>,
) -> Vec<String> {
    let named = used.iter().flat_map(|used| {
        let around = (0..used.len()).filter_map(|length| changed.get(&used[..length]));
        let from_used = (Bound::Included(used.as_slice()), Bound::Unbounded);
        let within = changed.range::<[String], _>(from_used);
        let within = within.take_while(|fact| fact.starts_with(used)).take(NAMED);
        around.chain(within).map(|fact| pointer(fact)).collect::<Vec<_>>()
    });
    let named: BTreeSet<String> = named.collect();
    named.into_iter().take(NAMED).collect()
}

/// Returns the JSON pointer to a fact, from the names that lead to it.
fn pointer(names: &[String]) -> String {
    names.iter().flat_map(|name| ["/".into(), pointer_segment(name)]).collect()
}

/// Returns whether a way leads to one of `ways`, or one of `ways` leads to it. There may be many of
/// them.
fn is_any_on_the_way(ways: &BTreeSet<Vec<String>>, other: &[String]) -> bool {
    let from_other = (Bound::Included(other), Bound::Unbounded);
    // The ways that begin with the other one follow it in the set.
    let next = ways.range::<[String], _>(from_other).next();
    next.is_some_and(|way| way.starts_with(other))
        || (0..other.len()).any(|length| ways.contains(&other[..length]))
}

/// Returns whether one of two ways begins with the other. A way is the names that lead to a value.
pub(crate) fn is_on_the_way(one: &[String], other: &[String]) -> bool {
    one.iter().zip(other).all(|(one, other)| one == other)
}

#[cfg(test)]
mod tests {
    use proptest::collection::{btree_set, vec};
    use proptest::prelude::{prop_assert_eq, proptest};

    use std::collections::BTreeSet;

    use super::{is_any_on_the_way, is_on_the_way, named_facts};

    fn ways<const N: usize>(ways: [&str; N]) -> BTreeSet<Vec<String>> {
        let names = |way: &str| way.split_whitespace().map(str::to_owned).collect();
        ways.into_iter().map(names).collect()
    }

    #[test]
    fn the_changed_facts_that_are_used_are_named() {
        let changed = ways(["motd", "users", "web port", "web tls/on", "x"]);

        let named = named_facts(&ways(["web", "users 0", "y"]), &changed);

        assert_eq!(named, ["/users", "/web/port", "/web/tls~1on"]);
        assert_eq!(named_facts(&ways([""]), &changed).len(), 5);
    }

    proptest! {
        #[test]
        fn one_of_many_ways_is_found_as_if_each_was_looked_at(
            ways in btree_set(vec("[ab]{1,2}", 0..4), 0..6),
            other in vec("[ab]{1,2}", 0..4),
        ) {
            let is_any = ways.iter().any(|way| is_on_the_way(way, &other));
            prop_assert_eq!(is_any_on_the_way(&ways, &other), is_any);
        }
    }
}
