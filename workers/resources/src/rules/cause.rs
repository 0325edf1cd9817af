use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::observer::{Happened, What};

/// What a rule waits for.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Trigger {
    /// The fact at this JSON pointer is another one than when the rule has handled it last. Of several changes the
    /// rule sees the last.
    Fact(String),
    /// The state of this resource is another one, likewise.
    State(String),
    /// Something has happened to a resource. Each time counts.
    Event {
        /// The resource; none for any.
        resource: Option<String>,
        /// What has happened; none for anything.
        event: Option<What>,
    },
}

impl Trigger {
    /// Returns whether it is for what has happened.
    pub(crate) fn is_for(&self, happened: &Happened) -> bool {
        match self {
            Self::Event { resource, event } => {
                resource.as_ref().is_none_or(|name| *name == happened.resource)
                    && event.is_none_or(|event| event == happened.event)
            }
            Self::Fact(_) | Self::State(_) => false,
        }
    }
}

/// Why a rule is to act.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Cause {
    /// The rule.
    pub rule: String,
    /// The path of the fact, or the name of the resource.
    pub of: String,
    /// The value before: what the rule has handled last. None if that is nothing.
    #[serde(default)]
    pub before: Option<Value>,
    /// The value now. None if nothing is there, and for an event.
    #[serde(default)]
    pub value: Option<Value>,
    /// What has happened to the resource; none if it is no event.
    #[serde(default)]
    pub happened: Option<Happened>,
}

impl Cause {
    /// Says it in a few words, without values.
    pub(crate) fn text(&self) -> String {
        match &self.happened {
            Some(happened) => format!("{} {}", self.of, happened.event.word()),
            None => format!("{} has changed", self.of),
        }
    }
}
