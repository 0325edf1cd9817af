//! What decides whether a change may be made.

use std::collections::HashMap;
use std::fmt;

use async_trait::async_trait;

use crate::declare::action::Action;
use crate::report::account::PLAN_AGAIN;
use crate::report::planned::{Change, Plan, PlannedResource, Verdict};
use crate::report::seal::{Basis, Salt};

/// What an apply is about to do to a resource.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub enum Proposal<'a> {
    /// To change it: all that its check has found.
    Change(&'a Change, Basis<'a>),
    /// To answer a notification.
    Refresh(&'a Action, Basis<'a>),
    /// To do one action of a change, or of an answer, that was approved before.
    Act(&'a Action),
}

/// Decides on each change of an apply before it is made.
///
/// A resource that is refused is left as it is, and what depends on it is skipped. By default nothing
/// is refused.
///
/// # Guarantees
///
/// - It is asked about a resource with all that its check has found, and then action by action. It is not
///   asked about the actions of a resource that it has refused.
/// - No resource is asked about after the run was told to stop.
///
/// # Requirements
///
/// - Several resources may be asked for at the same time, unless they are changed one at a time.
#[async_trait]
pub trait Approval: fmt::Debug + Send + Sync {
    /// Returns why this may not be done to a resource, as a text; nothing if it may.
    async fn refuses(&self, resource: &str, proposal: Proposal<'_>) -> Option<String>;
}

/// Approves what a plan shows, and nothing else. If the plan was [sealed](crate::PlanOptions::salt), the
/// config, the foreseen state and the contents of the programs must be those of the plan too.
#[derive(Debug)]
pub struct AsPlanned {
    resources: HashMap<String, PlannedResource>,
    salt: Option<Salt>,
    /// Whether what the plan could not show is approved.
    takes_unseen: bool,
}

impl AsPlanned {
    /// Returns the approval of what this plan shows.
    pub fn new(plan: Plan) -> Self {
        let resources = plan.resources.into_iter().map(|planned| (planned.name.clone(), planned));
        Self { resources: resources.collect(), salt: plan.salt, takes_unseen: false }
    }

    /// Has it approve also what the plan could not show, of the resources that it says may change.
    #[must_use]
    pub fn with_unseen(self) -> Self {
        Self { takes_unseen: true, ..self }
    }
}

#[async_trait]
impl Approval for AsPlanned {
    async fn refuses(&self, resource: &str, proposal: Proposal<'_>) -> Option<String> {
        let planned = self.resources.get(resource);
        let verdict = planned.map(|planned| &planned.verdict);
        let seals = |basis: Basis<'_>| {
            let planned = planned.and_then(|planned| planned.seal.clone());
            Some((planned?, basis.seal(self.salt.as_ref()?)))
        };
        let is_shown = match (proposal, verdict) {
            (Proposal::Act(_), _) => true,
            (_, Some(Verdict::MayChange { .. })) => self.takes_unseen,
            (Proposal::Change(change, basis), Some(Verdict::Changes(shown))) => {
                shown == change
                    && seals(basis).is_none_or(|(planned, now)| planned.is_of_change(&now))
            }
            (Proposal::Refresh(action, basis), _) => {
                let refresh = planned.and_then(|planned| planned.refresh.as_ref());
                refresh.is_some_and(|refresh| refresh.action == *action)
                    && seals(basis).is_none_or(|(planned, now)| planned.is_of_refresh(&now))
            }
            (Proposal::Change(..), _) => false,
        };
        let why = match verdict {
            _ if is_shown => return None,
            Some(Verdict::MayChange { .. }) => "the plan could not show yet how it changes",
            _ => "it would change otherwise than the plan has shown",
        };
        Some(format!("{why}{PLAN_AGAIN}"))
    }
}
