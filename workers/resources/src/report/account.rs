//! What apply has done.

use serde::{Deserialize, Serialize};

use crate::declare::action::Action;
use crate::report::found::Difference;
use crate::report::released::Released;

mod display;

/// The end of the reason for which a plan refuses a change.
pub(crate) const PLAN_AGAIN: &str = "; plan again";

/// What apply has done, resource by resource.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[must_use]
pub struct Account {
    /// Every resource, after those that it uses; otherwise in the order of the manifest. At the end
    /// those that an earlier apply of the same command has changed, or has failed to change, and
    /// that are not there any more.
    pub resources: Vec<Accounted>,
    /// What is not kept any more.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub released: Vec<Released>,
}

impl Account {
    /// Returns how many resources have changed and are as declared. One that failed, or was halted,
    /// after some of its actions counts among those.
    pub fn changes(&self) -> usize {
        self.count(|accounted| accounted.outcome == Outcome::Changed)
    }

    /// Returns whether a resource has changed. Resources that act at each apply, whatever the state
    /// of the machine, do not count.
    pub fn has_changed(&self) -> bool {
        self.count(|it| it.outcome == Outcome::Changed && !it.is_each_time) > 0
    }

    /// Returns how many resources were as declared.
    pub fn unchanged(&self) -> usize {
        self.count(|accounted| accounted.outcome == Outcome::Unchanged)
    }

    /// Returns how many resources were not looked at, because only `run` supervises them.
    pub fn run_only(&self) -> usize {
        self.count(|accounted| accounted.outcome == Outcome::RunOnly)
    }

    /// Returns how many resources were not looked at, because they depend on one that only `run`
    /// supervises.
    pub fn needs_run(&self) -> usize {
        self.count(|accounted| matches!(accounted.outcome, Outcome::NeedsRun { .. }))
    }

    /// Returns how many resources failed, or were skipped because of one.
    pub fn failures(&self) -> usize {
        self.count(|accounted| {
            matches!(accounted.outcome, Outcome::Failed { .. } | Outcome::Skipped { .. })
        })
    }

    /// Returns how many resources are not as declared, and declared to be left alone.
    pub fn left_alone(&self) -> usize {
        self.count(|accounted| accounted.outcome == Outcome::Noop)
    }

    /// Returns how many resources were left undone because apply was stopped, or went no further.
    pub fn halted(&self) -> usize {
        self.count(|accounted| match accounted.outcome {
            Outcome::Halted { .. } => !accounted.is_unverified(),
            Outcome::NotAttempted { .. } => true,
            _ => false,
        })
    }

    /// Returns how many resources had all their actions done, but no look after them because apply
    /// was stopped.
    pub fn unverified(&self) -> usize {
        self.count(Accounted::is_unverified)
    }

    /// Returns how many resources were left as they are because their change was not approved.
    pub fn refused(&self) -> usize {
        self.count(|accounted| matches!(accounted.outcome, Outcome::Refused { .. }))
    }

    /// Returns how many of the [refused](Self::refused) resources were left to another plan: nobody
    /// was asked about them.
    pub(crate) fn left_for_plan(&self) -> usize {
        self.count(|accounted| match &accounted.outcome {
            Outcome::Refused { because } => because.ends_with(PLAN_AGAIN),
            _ => false,
        })
    }

    /// Returns the resource with this name.
    pub fn get(&self, name: &str) -> Option<&Accounted> {
        self.resources.iter().find(|accounted| accounted.name == name)
    }

    fn count(&self, is_counted: impl Fn(&Accounted) -> bool) -> usize {
        self.resources.iter().filter(|accounted| is_counted(accounted)).count()
    }
}

/// What was done to one resource.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Accounted {
    /// The resource's name.
    pub name: String,
    /// Its type.
    #[serde(rename = "type")]
    pub kind: String,
    /// Whether it has left its manifest, and was to be put back as it was before.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_put_back: bool,
    /// Whether it acts at each apply, whatever the state of the machine.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_each_time: bool,
    /// How it ended.
    #[serde(flatten)]
    pub outcome: Outcome,
    /// What differed before, per attribute.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub differences: Vec<Difference>,
    /// The actions that were done, whatever came after them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub done: Vec<Done>,
    /// The actions that an earlier apply of the same command has begun and not finished.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub begun: Vec<Done>,
    /// The actions that were wanted and not begun.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub remaining: Vec<Action>,
    /// Who notified the resource in vain: it was not refreshed, because of how it ended.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub missed: Vec<String>,
}

impl Accounted {
    /// Returns whether all actions were done, and a stop has kept apply from looking at the
    /// resource again.
    pub(crate) fn is_unverified(&self) -> bool {
        let is_all_done = self.begun.is_empty() && self.remaining.is_empty();
        matches!(self.outcome, Outcome::Halted { at: None, .. })
            && !self.done.is_empty()
            && is_all_done
            && self.missed.is_empty()
    }
}

/// How a resource ended.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "outcome", rename_all = "snake_case")]
#[non_exhaustive]
pub enum Outcome {
    /// It was as declared, or only read.
    Unchanged,
    /// It was changed or refreshed, and is as declared.
    Changed,
    /// It may change. That shows only after others have changed, so no account has it.
    MayChange {
        /// The resources that change first.
        because: Vec<String>,
        /// What depends on them.
        reason: String,
    },
    /// It is not as declared, and declared to be left alone; its actions remain.
    Noop,
    /// It is supervised by `run` only.
    RunOnly,
    /// It was not looked at: it depends on a resource that is supervised by `run` only, directly or
    /// not.
    NeedsRun {
        /// The resource that is supervised.
        because: String,
    },
    /// It failed.
    Failed {
        /// The action that failed; none if it was not an action.
        at: Option<Done>,
        /// Why.
        error: String,
    },
    /// It was begun and not finished.
    Halted {
        /// The action that was interrupted; none if it was between two.
        at: Option<Done>,
        /// What stopped it.
        by: Halt,
    },
    /// It was not begun.
    NotAttempted {
        /// What stopped it.
        by: Halt,
    },
    /// It is not as declared, and its change was not approved; its actions remain.
    Refused {
        /// Why not.
        because: String,
    },
    /// It was not begun.
    Skipped {
        /// The resource that failed, or that is left alone and does not exist.
        because: String,
    },
    /// Another resource comes first. Only a visit under `run` ends so, so no account has it.
    #[serde(skip)]
    NotAllowed,
}

impl Outcome {
    /// Returns a failure that was not that of an action.
    pub(crate) fn failed(error: String) -> Self {
        Self::Failed { at: None, error }
    }

    /// Returns whether all was done that was to be done.
    pub(crate) fn is_good(&self) -> bool {
        matches!(
            self,
            Self::Unchanged | Self::Changed | Self::MayChange { .. } | Self::Noop | Self::RunOnly
        )
    }

    /// Returns the action that has failed.
    pub(crate) fn failed_action(&self) -> Option<&Done> {
        match self {
            Self::Failed { at, .. } => at.as_ref(),
            _ => None,
        }
    }

    /// Returns the action that was begun and not finished.
    pub(crate) fn unfinished(&self) -> Option<&Done> {
        match self {
            Self::Failed { at, .. } | Self::Halted { at, .. } => at.as_ref(),
            _ => None,
        }
    }
}

/// Why apply starts no new action.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Halt {
    /// It was told to stop.
    Stop,
    /// A resource failed, and `fail_fast` is set.
    FailFast,
    /// The site was applied, and not loaded again. Only another load makes the resource known.
    NotLoadedAgain,
}

/// An action that was run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Done {
    /// The action.
    pub action: Action,
    /// What it logged.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub log: Vec<String>,
}
