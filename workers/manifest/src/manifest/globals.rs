//! What all expressions of a manifest see.

use std::collections::BTreeMap;
use std::sync::Arc;

use minijinja::Value;

use crate::manifest::expression::from_json;
use crate::manifest::sensitive::Sensitive;
use crate::manifest::used::Used;
use crate::manifest::vars::Vars;

/// The variables, the facts and the host.
#[derive(Debug)]
pub(crate) struct Globals {
    pub(crate) vars: Vars,
    pub(crate) host: Value,
    pub(crate) facts: Value,
    pub(crate) sensitive: Arc<Sensitive>,
    /// Each variable as JSON, which tells 1 from 1.0 and true; none if it has no such form.
    texts: BTreeMap<String, Option<String>>,
    host_json: Arc<serde_json::Value>,
    facts_json: Arc<serde_json::Value>,
}

impl Globals {
    pub(crate) fn new(
        (vars, sensitive): (Vars, Arc<Sensitive>),
        host: Arc<serde_json::Value>,
        facts: Arc<serde_json::Value>,
    ) -> Self {
        let text =
            |(name, value): (&String, &Value)| (name.clone(), serde_json::to_string(value).ok());
        let texts = vars.iter().map(text).collect();
        let (host_seen, facts_seen) = (from_json(&host), from_json(&facts));
        Self {
            vars,
            host: host_seen,
            facts: facts_seen,
            sensitive,
            texts,
            host_json: host,
            facts_json: facts,
        }
    }

    /// Returns all variables as JSON.
    pub(crate) fn texts(&self) -> impl Iterator<Item = (&str, &str)> {
        self.texts.iter().map(|(name, text)| (&**name, text.as_deref().unwrap_or_default()))
    }

    /// Returns the facts that are used, as JSON.
    pub(crate) fn facts_used(
        &self,
        used: &Used,
    ) -> impl Iterator<Item = Option<&serde_json::Value>> {
        used.facts.iter().map(|path| fact(&self.facts_json, path))
    }

    /// Returns whether others have the same values for all that is used.
    pub(crate) fn is_alike(&self, other: &Self, used: &Used) -> bool {
        let is_host_alike = !used.host || self.host_json == other.host_json;
        let is_alike = |name: &String| {
            let text = self.texts.get(name).and_then(Option::as_ref);
            text.is_some() && text == other.texts.get(name).and_then(Option::as_ref)
        };
        let are_vars_alike = match used.all_vars {
            true => self.texts.values().all(Option::is_some) && self.texts == other.texts,
            false => used.vars.iter().all(is_alike),
        };
        let are_facts_alike = self.facts_used(used).eq(other.facts_used(used));
        is_host_alike && are_vars_alike && are_facts_alike
    }
}

/// Returns the fact that some names lead to, as an expression would see it; none if nothing is there.
fn fact<'a>(facts: &'a serde_json::Value, path: &[String]) -> Option<&'a serde_json::Value> {
    path.iter().try_fold(facts, |value, name| match value {
        serde_json::Value::Object(map) => map.get(name),
        // What is taken of a value beyond its facts follows from the value.
        value => Some(value),
    })
}
