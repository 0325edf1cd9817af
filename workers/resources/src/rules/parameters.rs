use std::time::Duration;

use serde::Deserialize;
use serde_json::{Value, json};

use crate::meta::duration;
use crate::tuning::time_schema;

/// How a rule does its work.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct RuleParameters {
    /// Whether it does anything. Of facts and states it handles the last change when it is switched on again; events
    /// that come meanwhile are lost. Default true.
    pub is_enabled: bool,
    /// How long it waits after a change for others, which are handled together. Default 0.
    pub debounce: Duration,
    /// How often it tries to handle a cause before it gives it up. Default 5, at least 1.
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

/// The same in facts, where some may be said.
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
    /// Returns these with what facts say otherwise. Those that cannot be read count as none: the schema keeps them
    /// from being stored.
    pub(crate) fn with(&self, facts: Option<&Value>) -> Self {
        let said = facts.and_then(|facts| Said::deserialize(facts).ok()).unwrap_or_default();
        Self {
            is_enabled: said.enabled.unwrap_or(self.is_enabled),
            debounce: said.debounce.unwrap_or(self.debounce),
            attempts: said.attempts.unwrap_or(self.attempts).max(1),
            timeout: said.timeout.unwrap_or(self.timeout),
        }
    }

    /// Returns the JSON Schema of the facts at `/rules`. A rule may have parameters of its own beside these.
    pub fn schema() -> Value {
        let rule = json!({"type": "object", "properties": {
            "enabled": {"type": "boolean"}, "debounce": time_schema(), "timeout": time_schema(),
            "attempts": {"type": "integer", "minimum": 1, "maximum": 1000},
        }});
        json!({"title": "The parameters of rules, by name", "type": "object", "additionalProperties": rule})
    }
}
