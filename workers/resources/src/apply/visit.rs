use std::sync::Arc;

use serde_json::Value;

use crate::account::{Accounted, Halt, Outcome};
use crate::action::Description;
use crate::apply::halting::{Halting, Steps};
use crate::apply::shutdown::Prior;
use crate::declaration::Declaration;
use crate::look::{Changes, Inputs, Made, Opened, Seen, SeenState, Setting, make};
use crate::resource::{Check, Difference, Stale};

/// One resource to be made as declared.
#[derive(Debug)]
pub(crate) struct Visit {
    pub(crate) declaration: Declaration,
    pub(crate) setting: Setting,
    pub(crate) inputs: Inputs,
    pub(crate) halting: Arc<Halting>,
    pub(crate) prior: Prior,
}

/// A resource that was visited.
#[derive(Debug)]
pub(crate) struct Applied {
    pub(crate) accounted: Accounted,
    pub(crate) seen: Seen,
}

/// How far a visit has come.
#[derive(Debug, Default)]
struct Progress {
    steps: Steps,
    differences: Vec<Difference>,
    state: SeenState,
}

impl Visit {
    pub(crate) async fn run(mut self) -> Applied {
        let mut progress =
            Progress { steps: std::mem::take(&mut self.prior.steps), ..Progress::default() };
        let outcome = match self.advance(&mut progress).await {
            Ok(outcome) | Err(outcome) => outcome,
        };
        if matches!(outcome, Outcome::Failed { .. }) {
            self.halting.fail();
        }
        self.account(outcome, progress)
    }

    /// Goes on to the end, or to what stops it.
    async fn advance(&mut self, progress: &mut Progress) -> Result<Outcome, Outcome> {
        if let Some(outcome) = self.prior.outcome.take() {
            return Err(outcome);
        }
        if let Some(because) = self.inputs.blocked_by.clone() {
            return Err(self.blocked(because));
        }
        if let Some(by) = self.halting.halt() {
            return Err(Outcome::NotAttempted { by });
        }
        let made = make(&self.declaration, &self.setting, &self.inputs.states);
        let (resource, context) = match made.map_err(failed)? {
            Made::Resource(resource, context) => (resource, context),
            Made::Unknown(aliases) => return Err(self.never_known(&aliases)),
        };
        let opened = Opened::new(resource, context).await.map_err(|err| self.cannot_look(err))?;
        let outcome = self.converge(&opened, progress).await;
        let closed = opened.close().await.map_err(failed);
        let outcome = outcome?;
        closed.map(|()| outcome)
    }

    /// What follows a blocked resource was not attempted if apply has halted, else skipped.
    fn blocked(&self, because: String) -> Outcome {
        match self.halting.halt() {
            Some(by) => Outcome::NotAttempted { by },
            None => Outcome::Skipped { because },
        }
    }

    fn never_known(&self, aliases: &[String]) -> Outcome {
        let never = aliases.iter().find_map(|alias| self.inputs.never.get(alias));
        match never {
            Some(because) => Outcome::Skipped { because: because.clone() },
            None => failed(format!("the states of {} are not known", aliases.join(", "))),
        }
    }

    /// An error of looking while apply is told to stop is most likely the stop's doing.
    fn cannot_look(&self, error: String) -> Outcome {
        if self.halting.is_stopped() {
            Outcome::Halted { at: None, by: Halt::Stop }
        } else {
            failed(error)
        }
    }

    async fn converge(&self, opened: &Opened, progress: &mut Progress) -> Result<Outcome, Outcome> {
        let state = match self.check(opened).await? {
            Check::RunOnly(state) => {
                progress.state = SeenState::Known(state);
                return Ok(Outcome::RunOnly);
            }
            Check::Stale(stale) if self.declaration.noop => {
                return Ok(leave_alone(stale, progress));
            }
            Check::Stale(stale) => {
                progress.differences = stale.differences;
                self.halting.run(stale.actions, &mut progress.steps).await?;
                self.verify(opened).await?
            }
            Check::Valid(state) => state,
        };
        let state = self.refresh(opened, progress).await?.unwrap_or(state);
        progress.state = SeenState::Known(state);
        let is_changed = !progress.steps.done.is_empty() || !progress.differences.is_empty();
        Ok(if is_changed { Outcome::Changed } else { Outcome::Unchanged })
    }

    async fn check(&self, opened: &Opened) -> Result<Check, Outcome> {
        opened.check().await.map_err(|err| self.cannot_look(err))
    }

    /// Looks again after a change; the resource must be valid now.
    async fn verify(&self, opened: &Opened) -> Result<Value, Outcome> {
        match self.check(opened).await? {
            Check::Valid(state) | Check::RunOnly(state) => Ok(state),
            Check::Stale(stale) => {
                let differences: Vec<_> =
                    stale.differences.iter().map(ToString::to_string).collect();
                Err(failed(format!(
                    "it is still not as declared after its actions: {}",
                    differences.join("; ")
                )))
            }
        }
    }

    /// Does what a notification asks for and returns the state after it.
    async fn refresh(
        &self,
        opened: &Opened,
        progress: &mut Progress,
    ) -> Result<Option<Value>, Outcome> {
        if self.inputs.notified_by.is_empty() || self.declaration.noop {
            return Ok(None);
        }
        let done: Vec<Description> =
            progress.steps.done.iter().map(|done| done.action.clone()).collect();
        let Some(action) = opened.refresh(&done).map_err(failed)? else { return Ok(None) };
        self.halting.run(vec![action], &mut progress.steps).await?;
        self.verify(opened).await.map(Some)
    }

    fn account(self, outcome: Outcome, progress: Progress) -> Applied {
        let Declaration { name, kind, .. } = self.declaration;
        let blocked_by = match &outcome {
            Outcome::Skipped { because } => Some(because.clone()),
            Outcome::Failed { .. } | Outcome::Halted { .. } | Outcome::NotAttempted { .. } => {
                Some(name.clone())
            }
            _ => None,
        };
        let missed = if blocked_by.is_some() { self.inputs.notified_by } else { Vec::new() };
        let Steps { done, remaining } = progress.steps;
        // Also a resource that failed half-way has changed for those that it notifies.
        let changes = if done.is_empty() { Changes::No } else { Changes::Yes };
        let seen = Seen { state: progress.state, blocked_by, changes };
        let differences = progress.differences;
        let accounted = Accounted { name, kind, outcome, differences, done, remaining, missed };
        Applied { accounted, seen }
    }
}

fn failed(error: String) -> Outcome {
    Outcome::Failed { at: None, error }
}

fn leave_alone(stale: Stale, progress: &mut Progress) -> Outcome {
    progress.differences = stale.differences;
    let actions = stale.actions.iter().map(|action| action.description().clone());
    progress.steps.remaining.extend(actions);
    progress.state = stale.current.map_or(SeenState::Never, SeenState::Known);
    Outcome::Noop
}
