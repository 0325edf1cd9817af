//! How the resources of a site have fared under `run`.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::SystemTime;

use serde::{Deserialize, Serialize};

use crate::base::packed::Packed;
use crate::report::observer::EventKind;
use crate::report::released::Released;

/// How the resources of a site have fared since the agent has kept them.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Tally {
    /// Each resource, by its name.
    #[serde(default)]
    pub resources: BTreeMap<String, ResourceTally>,
    /// What the last site that has released something has released.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub released: Vec<Released>,
}

/// How a resource has fared since the agent has kept it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ResourceTally {
    /// Its type.
    #[serde(rename = "type")]
    pub kind: String,
    /// Its tags.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tags: Vec<String>,
    /// How often it was changed, repaired or refreshed.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub changes: u64,
    /// How often something else had changed it, and it was made as declared again.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub repairs: u64,
    /// How often a look at it or an action of it has failed, or its program has ended by itself.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub failures: u64,
    /// How often its program was started again.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub restarts: u64,
    /// How often it was looked at.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub looks: u64,
    /// When it was changed, repaired or refreshed last, in RFC 3339 and UTC.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_change: Option<String>,
    /// The resource that is not as declared, if it must not act because of that one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub held_back_by: Option<String>,
}

/// What is counted of a resource.
#[derive(Debug, Default)]
pub(crate) struct Count {
    kind: String,
    tags: Vec<String>,
    changes: u64,
    repairs: u64,
    failures: u64,
    restarts: u64,
    looks: u64,
    last_change: Option<SystemTime>,
    /// Packed, because it has many texts and is seldom asked for.
    last_event: Option<Arc<Packed>>,
}

impl Count {
    /// Takes over how the resource is declared now.
    pub(crate) fn declare(&mut self, kind: &str, tags: &[String]) {
        if self.kind != kind {
            *self = Self { kind: kind.to_owned(), ..Self::default() };
        }
        if self.tags != tags {
            self.tags = tags.to_vec();
        }
    }

    /// Returns the kind of the resource as it is declared now.
    pub(crate) fn kind(&self) -> &str {
        &self.kind
    }

    /// Counts a change, which may be a repair.
    #[expect(clippy::disallowed_methods, reason = "people are told when it was")]
    pub(crate) fn note_change(&mut self, is_repaired: bool) {
        self.changes += 1;
        self.repairs += u64::from(is_repaired);
        self.last_change = Some(SystemTime::now());
    }

    /// Counts a look.
    pub(crate) fn note_look(&mut self) {
        self.looks += 1;
    }

    /// Counts a failure.
    pub(crate) fn note_failure(&mut self) {
        self.failures += 1;
    }

    /// Keeps an event of this kind as the last one.
    pub(crate) fn note_event(&mut self, what: EventKind, event: Packed) {
        self.restarts += u64::from(what == EventKind::Restarted);
        self.last_event = Some(Arc::new(event));
    }

    pub(crate) fn last_event(&self) -> Option<Arc<Packed>> {
        self.last_event.clone()
    }

    pub(crate) fn tally(&self, held_back_by: Option<String>) -> ResourceTally {
        let last_change =
            self.last_change.map(|at| humantime::format_rfc3339_millis(at).to_string());
        ResourceTally {
            kind: self.kind.clone(),
            tags: self.tags.clone(),
            changes: self.changes,
            repairs: self.repairs,
            failures: self.failures,
            restarts: self.restarts,
            looks: self.looks,
            last_change,
            held_back_by,
        }
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it so")]
fn is_zero(count: &u64) -> bool {
    *count == 0
}
