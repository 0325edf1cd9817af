//! The names under which expressions see other resources.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::manifest::used::Used;

/// A name under which expressions see other resources.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Alias {
    pub(crate) name: String,
    /// The resources of a `for_each`: each item, and the alias under which its state is known. None
    /// for one resource, whose state has the alias itself.
    pub(crate) items: Option<Vec<(String, String)>>,
    /// The name and the type of one resource.
    pub(crate) of: Option<(String, String)>,
    /// Where the secrets are in a state: the keys that lead to each.
    pub(crate) secrets: Arc<[Vec<String>]>,
}

impl Alias {
    /// Returns the names by which expressions find the states in it, each with the alias under which
    /// the state is known.
    pub(crate) fn states(&self) -> impl Iterator<Item = (&str, &str)> {
        let one = self.items.is_none().then_some(("state", self.name.as_str()));
        let items = self.items.iter().flatten();
        one.into_iter().chain(items.map(|(item, alias)| (item.as_str(), alias.as_str())))
    }

    /// Returns whether its states have secrets.
    pub(crate) fn has_secrets(&self) -> bool {
        !self.secrets.is_empty()
    }

    /// Returns the secrets of its states that are used, as expressions name them.
    fn secrets_of(&self, used: &Used) -> impl Iterator<Item = String> {
        let wanted = used.states.get(&self.name);
        let is_used = move |secret: &&Vec<String>| {
            wanted.is_some_and(|it| secret.first().is_none_or(|name| it.has(name)))
        };
        let secrets = self.secrets.iter().filter(is_used);
        secrets.map(|secret| format!("deps.{}.state.{}", self.name, secret.join(".")))
    }

    /// Returns the aliases of the single resources that it stands for, if it is for a `for_each`.
    pub(crate) fn items(&self) -> impl Iterator<Item = &str> {
        self.items.iter().flatten().map(|(_, alias)| alias.as_str())
    }
}

/// Returns the secrets of states that are used, as expressions name them.
pub(crate) fn secrets_of(aliases: &[Alias], used: &Used) -> BTreeSet<String> {
    let mut secrets: BTreeSet<String> =
        aliases.iter().flat_map(|alias| alias.secrets_of(used)).collect();
    if used.all_states && aliases.iter().any(Alias::has_secrets) {
        secrets.insert("deps".to_owned());
    }
    secrets
}
