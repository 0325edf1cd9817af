//! The values that are secrets.

use std::collections::BTreeSet;
use std::sync::Arc;

use crankcase_resources::front::{Secrets, add_secret};
use serde_json::Value;

use crate::facts::SeenFacts;
use crate::manifest::used::{Used, is_on_the_way};

/// The name under which the facts stand among the variables. No variable can have this name.
const FACTS: &str = "facts";

/// The values that nobody may see.
#[derive(Debug, Clone, Default)]
pub(crate) struct Sensitive {
    /// Where they are among the variables: the name of a variable, and the keys below it. All facts count as one
    /// variable.
    pub(super) paths: BTreeSet<Vec<String>>,
    /// Where they are among the states of dependencies: an alias, and the keys below it; none for any key.
    states: Vec<Vec<Option<String>>>,
    /// The values themselves.
    pub(crate) secrets: Secrets,
}

impl Sensitive {
    pub(crate) fn new(secrets: &Secrets) -> Self {
        Self { paths: BTreeSet::new(), states: Vec::new(), secrets: secrets.clone() }
    }

    /// Returns these and the secrets of states. Each stands below an alias.
    pub(crate) fn with_states(self: &Arc<Self>, states: Vec<Vec<Option<String>>>) -> Arc<Self> {
        if states.is_empty() {
            return Arc::clone(self);
        }
        let (paths, secrets) = (self.paths.clone(), self.secrets.clone());
        Arc::new(Self { paths, states, secrets })
    }

    /// Returns these and some facts: the names that lead to each.
    pub(crate) fn with_facts(self: Arc<Self>, facts: Vec<Vec<String>>) -> Arc<Self> {
        if facts.is_empty() {
            return self;
        }
        let mut all = Arc::unwrap_or_clone(self);
        all.paths.extend(facts.into_iter().map(of_facts));
        Arc::new(all)
    }

    /// Adds the secrets of the facts, and hides their texts.
    pub(crate) fn add_facts(&mut self, facts: &SeenFacts) {
        self.paths.extend(facts.secrets.iter().cloned().map(of_facts));
        self.note_facts(facts);
    }

    /// Hides the texts of the secrets of the facts.
    pub(crate) fn note_facts(&self, facts: &SeenFacts) {
        self.note(FACTS, &facts.value);
    }

    /// Returns the names of the variables that hold any.
    pub(crate) fn vars(&self) -> BTreeSet<String> {
        let names = self.paths.iter().filter_map(|path| path.first());
        names.filter(|name| *name != FACTS).cloned().collect()
    }

    /// Returns the secrets among the values that are used.
    pub(crate) fn used_by(&self, used: &Used) -> Arc<Self> {
        let is_used = |path: &&Vec<String>| match path.split_first() {
            Some((first, rest)) if first == FACTS => {
                used.facts.iter().any(|fact| is_on_the_way(fact, rest))
            }
            Some((name, _)) => used.all_vars || used.vars.contains(name),
            None => false,
        };
        let paths = self.paths.iter().filter(is_used).cloned().collect();
        Arc::new(Self { paths, states: Vec::new(), secrets: self.secrets.clone() })
    }

    /// Returns whether there are none.
    pub(crate) fn is_empty(&self) -> bool {
        self.paths.is_empty() && self.states.is_empty()
    }

    /// Returns whether a used value is a secret of a state, or has one in it. `path` is an alias
    /// with the attributes that are taken from it.
    pub(crate) fn is_of_state(&self, path: &[String]) -> bool {
        let below = path.strip_prefix(&["deps".to_owned()]).unwrap_or(path);
        let is_alike =
            |(key, name): (&Option<String>, &String)| key.as_ref().is_none_or(|key| key == name);
        self.states.iter().any(|secret| secret.iter().zip(below).all(is_alike))
    }

    /// Returns the path as it is shown, if the value there holds a secret, or is in one. `path` is
    /// a name with the attributes that are taken from it.
    pub(crate) fn used(&self, path: &[String]) -> Option<String> {
        let below = path.strip_prefix(&["vars".to_owned()]).unwrap_or(path);
        let is_used = self.paths.iter().any(|secret| is_on_the_way(secret, below));
        is_used.then(|| match below {
            [] => "vars".to_owned(),
            [first, ..] if first == FACTS => below.join("."),
            below => format!("vars.{}", below.join(".")),
        })
    }

    /// Adds the secret values of a variable to the texts that are hidden.
    pub(crate) fn note(&self, name: &str, value: &Value) {
        for path in self.paths.iter().filter(|path| path.first().is_some_and(|it| it == name)) {
            let below = path[1..].iter().try_fold(value, |value, key| match value {
                Value::Array(items) => items.get(key.parse::<usize>().ok()?),
                Value::Object(map) => map.get(key),
                // It was set in place of a value with such keys.
                value => Some(value),
            });
            if let Some(secret) = below {
                add_secret(secret, &self.secrets);
            }
        }
    }
}

/// Returns where a fact is among the variables.
fn of_facts(path: Vec<String>) -> Vec<String> {
    [FACTS.to_owned()].into_iter().chain(path).collect()
}
