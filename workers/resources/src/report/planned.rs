//! What a plan says of each resource.

use serde::{Deserialize, Serialize};

use crate::declare::action::Action;
use crate::report::found::Difference;
use crate::report::released::Released;
use crate::report::seal::{Salt, Seal};

mod display;

/// What apply would do.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[must_use]
pub struct Plan {
    /// What it is sealed with, if it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub salt: Option<Salt>,
    /// Every resource, after those that it uses; otherwise in the order of the manifest.
    pub resources: Vec<PlannedResource>,
    /// What would not be kept any more.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub released: Vec<Released>,
}

impl Plan {
    /// Returns how many resources would change or be refreshed.
    pub fn changes(&self) -> usize {
        self.count(PlannedResource::is_changing)
    }

    /// Returns how many resources may change, which shows only after others have.
    pub fn may_change(&self) -> usize {
        self.count(|planned| matches!(planned.verdict, Verdict::MayChange { .. }))
    }

    /// Returns how many resources could not be looked at, or were skipped because of one.
    pub fn failures(&self) -> usize {
        self.count(|planned| {
            matches!(planned.verdict, Verdict::Failed { .. } | Verdict::Skipped { .. })
        })
    }

    /// Returns how many resources are not as declared, and declared to be left alone.
    pub fn left_alone(&self) -> usize {
        self.count(|planned| matches!(planned.verdict, Verdict::Noop(_)))
    }

    /// Returns how many resources are not looked at, because only `run` supervises them.
    pub fn run_only(&self) -> usize {
        self.count(|planned| planned.verdict == Verdict::RunOnly)
    }

    /// Returns how many resources are not looked at, because they depend on one that only `run`
    /// supervises.
    pub fn needs_run(&self) -> usize {
        self.count(|planned| matches!(planned.verdict, Verdict::NeedsRun { .. }))
    }

    /// Returns whether any resource would, or may, change.
    pub fn has_something_to_do(&self) -> bool {
        self.changes() + self.may_change() > 0
    }

    /// Returns whether a resource would, or may, change. Resources that act at each apply, whatever
    /// the state of the machine, do not count.
    pub fn has_changes(&self) -> bool {
        self.count(|it| it.is_changing() && !it.is_each_time) + self.may_change() > 0
    }

    /// Returns the resource with this name.
    pub fn get(&self, name: &str) -> Option<&PlannedResource> {
        self.resources.iter().find(|planned| planned.name == name)
    }

    fn count(&self, is_counted: impl Fn(&PlannedResource) -> bool) -> usize {
        self.resources.iter().filter(|planned| is_counted(planned)).count()
    }
}

/// What apply would do to one resource.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct PlannedResource {
    /// The resource's name.
    pub name: String,
    /// Its type.
    #[serde(rename = "type")]
    pub kind: String,
    /// Whether it has left its manifest, and is to be put back as it was before.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_put_back: bool,
    /// Whether it acts at each apply, whatever the state of the machine.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_each_time: bool,
    /// Whether it would change, or may, and other resources may be declared after that.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub declares_others: bool,
    /// What the check found.
    #[serde(flatten)]
    pub verdict: Verdict,
    /// What would be done because of a notification.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refresh: Option<Refresh>,
    /// What else it is bound to, if the plan is sealed and the resource could be looked at.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seal: Option<Seal>,
}

impl PlannedResource {
    /// Returns whether the resource would change or be refreshed.
    pub fn is_changing(&self) -> bool {
        matches!(self.verdict, Verdict::Changes(_)) || self.refresh.is_some()
    }
}

/// What a check found.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "verdict", rename_all = "snake_case")]
#[non_exhaustive]
pub enum Verdict {
    /// It is as declared, or only read.
    Unchanged,
    /// It would change.
    Changes(Change),
    /// It is not as declared, and declared to be left alone.
    Noop(Change),
    /// It may change; that shows only after others have changed.
    MayChange {
        /// The resources that change first.
        because: Vec<String>,
        /// What depends on them.
        reason: String,
    },
    /// It is supervised by `run` only.
    RunOnly,
    /// It is not looked at: it depends on a resource that is supervised by `run` only, directly or
    /// not.
    NeedsRun {
        /// The resource that is supervised.
        because: String,
    },
    /// It could not be looked at.
    Failed {
        /// Why.
        error: String,
    },
    /// It was not looked at.
    Skipped {
        /// The resource that failed.
        because: String,
    },
}

/// How a resource would change.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Change {
    /// What differs, per attribute.
    pub differences: Vec<Difference>,
    /// What would be done before the first action of any resource.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shutdown: Option<Action>,
    /// What would be done, in this order.
    pub actions: Vec<Action>,
}

/// What a notification would bring about.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Refresh {
    /// The changing resources that notify.
    pub by: Vec<String>,
    /// What would be done.
    pub action: Action,
}
