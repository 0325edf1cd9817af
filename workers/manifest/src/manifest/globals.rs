//! What all expressions of a manifest see.

use std::collections::BTreeMap;
use std::sync::Arc;

use minijinja::Value;

use crate::manifest::check::Used;
use crate::manifest::expression::from_json;
use crate::manifest::sensitive::Sensitive;
use crate::manifest::vars::Vars;

/// The variables and the host.
#[derive(Debug)]
pub(crate) struct Globals {
    pub(crate) vars: Vars,
    pub(crate) host: Value,
    pub(crate) sensitive: Arc<Sensitive>,
    /// Each variable as JSON, which tells 1 from 1.0 and true; none if it has no such form.
    texts: BTreeMap<String, Option<String>>,
    host_json: Arc<serde_json::Value>,
}

impl Globals {
    pub(crate) fn new(vars: Vars, sensitive: Arc<Sensitive>, host: Arc<serde_json::Value>) -> Self {
        let text =
            |(name, value): (&String, &Value)| (name.clone(), serde_json::to_string(value).ok());
        let texts = vars.iter().map(text).collect();
        Self { vars, host: from_json(&host), sensitive, texts, host_json: host }
    }

    /// Returns all variables as JSON.
    pub(crate) fn texts(&self) -> impl Iterator<Item = (&str, &str)> {
        self.texts.iter().map(|(name, text)| (&**name, text.as_deref().unwrap_or_default()))
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
        is_host_alike && are_vars_alike
    }
}
