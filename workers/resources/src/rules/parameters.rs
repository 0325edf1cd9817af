//! How a rule does its work: its wait after a change, its attempts and its timeout.

use std::time::Duration;

use serde::Deserialize;
use serde_json::{Value, json};

use crate::declare::meta::duration;
use crate::declare::tuning::time_schema;

/// How a rule does its work.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct RuleParameters {
    /// Whether the rule is enabled. When it is enabled again, it handles the last change of its fact or state; events
    /// that came meanwhile are lost. Default true.
    pub is_enabled: bool,
    /// How long the rule waits after a change for further changes, to handle them together. Default 0.
    pub debounce: Duration,
    /// How many attempts the rule makes at a cause before it gives the cause up. Default 5, at least 1.
    pub attempts: u32,
    /// How long one attempt may take. Default 1 min.
    pub timeout: Duration,
}

impl Default for RuleParameters {
    fn default() -> Self {
        let (debounce, timeout) = (Duration::ZERO, Duration::from_secs(60));
        Self { is_enabled: true, debounce, attempts: 5, timeout }
    }
}

/// The parameters in facts, where any of them may be missing.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Said {
    enabled: Option<bool>,
    #[serde(with = "duration")]
    debounce: Option<Duration>,
    attempts: Option<u32>,
    #[serde(with = "duration")]
    timeout: Option<Duration>,
}

impl RuleParameters {
    /// Returns these parameters with those from facts in their place. Facts that cannot be read are ignored; the
    /// schema keeps such facts from being stored.
    pub(crate) fn with(&self, facts: Option<&Value>) -> Self {
        let said = facts.and_then(|facts| Said::deserialize(facts).ok()).unwrap_or_default();
        Self {
            is_enabled: said.enabled.unwrap_or(self.is_enabled),
            debounce: said.debounce.unwrap_or(self.debounce),
            attempts: said.attempts.unwrap_or(self.attempts).max(1),
            timeout: said.timeout.unwrap_or(self.timeout),
        }
    }

    /// Returns the JSON Schema of the facts at `/rules`. A rule may have further parameters of its own.
    pub fn schema() -> Value {
        let rule = json!({"type": "object", "properties": {
            "enabled": {"type": "boolean"}, "debounce": time_schema(), "timeout": time_schema(),
            "attempts": {"type": "integer", "minimum": 1, "maximum": 1000},
        }});
        json!({"title": "The parameters of rules, by name", "type": "object", "additionalProperties": rule})
    }
}
