//! What a rule waits for, and the change or event that it then has to handle.

use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::{Digest, Sha256};

use crate::base::shape::Shape;
use crate::report::observer::{Event, EventKind};

/// What a rule waits for.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Trigger {
    /// The fact at this JSON pointer differs from the value that the rule has handled last. Of several changes the rule
    /// sees only the last.
    Fact(String),
    /// The state of this resource differs from the state that the rule has handled last.
    State(String),
    /// Something has happened to a resource. The rule handles each event.
    Event {
        /// The resource. None stands for any resource.
        resource: Option<String>,
        /// What has happened. None stands for any event.
        event: Option<EventKind>,
    },
}

impl Trigger {
    /// Returns whether the trigger waits for this event.
    pub(crate) fn is_for(&self, happened: &Event) -> bool {
        match self {
            Self::Event { resource, event } => {
                resource.as_ref().is_none_or(|name| *name == happened.resource)
                    && event.is_none_or(|event| event == happened.event)
            }
            Self::Fact(_) | Self::State(_) => false,
        }
    }

    /// Returns whether the trigger waits for any event of this resource.
    pub(crate) fn is_of(&self, of: &str) -> bool {
        match self {
            Self::Event { resource, .. } => resource.as_ref().is_none_or(|name| name == of),
            Self::Fact(_) | Self::State(_) => false,
        }
    }
}

/// The change or the event that a rule has to handle.
#[derive(Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Cause {
    /// The rule.
    pub rule: String,
    /// The path of the fact, or the name of the resource.
    pub of: String,
    /// The value that the rule has handled last. None if there was no value, and for an event.
    #[serde(default)]
    pub before: Option<Value>,
    /// The value now. None if there is no value, and for an event.
    #[serde(default)]
    pub value: Option<Value>,
    /// What has happened to the resource. None if the cause is no event.
    #[serde(default)]
    pub happened: Option<Event>,
}

/// Shows no values, which may be secrets.
impl fmt::Debug for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { rule, of, before, value, happened } = self;
        let mut shown = f.debug_struct("Cause");
        shown.field("rule", rule).field("of", of).field("before", &before.as_ref().map(Shape::of));
        shown.field("value", &value.as_ref().map(Shape::of)).field("happened", happened).finish()
    }
}

impl Cause {
    /// Returns the digest of the change or the event, which attempts at it are counted by.
    pub(crate) fn digest(&self) -> String {
        let Self { of, value, happened, .. } = self;
        let text = serde_json::to_vec(&(of, value, happened)).unwrap_or_default();
        base16ct::lower::encode_string(&Sha256::digest(text))
    }

    /// Returns the cause in a few words, without values.
    pub(crate) fn text(&self) -> String {
        match &self.happened {
            Some(happened) => format!("{} {}", self.of, happened.event.word()),
            None => format!("{} has changed", self.of),
        }
    }
}
