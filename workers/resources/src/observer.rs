//! What happens to resources, for those who watch.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::account::Accounted;

/// Sees what happens to resources in apply and run, as it happens. See
/// [`Facilities::observed_by`](crate::Facilities::observed_by).
///
/// It is called where resources are worked on, several at a time, so it must not block for long.
/// Secrets are hidden in all that it sees.
pub trait Observer: fmt::Debug + Send + Sync {
    /// Sees a line of an action's output while the action runs. Of a kind that does not say its lines at
    /// once ([`Context::said`](crate::Context::said)), nothing is seen.
    fn said(&self, resource: &str, line: &str) {
        let _ = (resource, line);
    }

    /// Sees that a resource was changed, or could not be. A failure that is the same at each try is seen
    /// once.
    fn happened(&self, event: &Happened) {
        let _ = event;
    }

    /// Sees how apply has ended with a resource.
    fn accounted(&self, accounted: &Accounted) {
        let _ = accounted;
    }
}

/// What has happened to a resource.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Happened {
    /// What that was.
    pub event: What,
    /// The resource's name.
    pub resource: String,
    /// Its kind.
    #[serde(rename = "type")]
    pub kind: String,
    /// What was not as declared, as a text of bounded length; empty if nothing was.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub differences: String,
    /// The names of the actions that were done.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub actions: Vec<String>,
    /// Why it has failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// Why the resource was looked at.
    pub why: String,
    /// How long that took, with the look, in milliseconds.
    pub took_ms: u64,
}

/// What can happen to a resource.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum What {
    /// It was made as declared, for the first time or because its declaration is another one.
    Changed,
    /// Something else had changed it, and it was made as declared again.
    Repaired,
    /// It has answered a notification.
    Refreshed,
    /// It could not be made as declared.
    Failed,
    /// It has left its manifest, and is not kept any more.
    Released,
}

impl What {
    /// Returns it as a word.
    pub fn word(self) -> &'static str {
        match self {
            Self::Changed => "changed",
            Self::Repaired => "repaired",
            Self::Refreshed => "refreshed",
            Self::Failed => "failed",
            Self::Released => "released",
        }
    }
}

impl Happened {
    pub(crate) fn new(
        event: What,
        (resource, kind): (&str, &str),
        (why, took): (&str, Duration),
    ) -> Self {
        Self {
            event,
            resource: resource.to_owned(),
            kind: kind.to_owned(),
            differences: String::new(),
            actions: Vec::new(),
            error: None,
            why: why.to_owned(),
            took_ms: u64::try_from(took.as_millis()).unwrap_or(u64::MAX),
        }
    }
}
