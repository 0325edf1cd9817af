//! One resource from what it is to what it should be: what apply and run do alike.
use serde_json::Value;

use crate::account::{Halt, Outcome};
use crate::action::Action;
use crate::approval::Wish;
use crate::declaration::is_fact_alias;
use crate::found::{Amiss, Difference, Found, listed};
use crate::halting::{Halting, Steps};
use crate::inputs::SeenState;
use crate::notifying::Promise;
use crate::opened::Opened;
use crate::planned::Change;
use crate::seal::Grounds;

/// A resource that is to be made as declared.
#[derive(Debug)]
pub(crate) struct Convergence<'a> {
    pub(crate) opened: &'a Opened,
    pub(crate) halting: &'a Halting,
    /// Whether it is only looked at.
    pub(crate) noop: bool,
    /// Whether what differs is nobody's concern.
    pub(crate) readonly: bool,
    /// Whether a resource that notifies it has changed.
    pub(crate) is_notified: bool,
    /// Whether all that is to be done was approved before the resource was shut down.
    pub(crate) is_approved: bool,
    /// What is put on disk before anything is done.
    pub(crate) promise: &'a Promise<'a>,
}

/// How far a convergence has come.
#[derive(Debug, Default)]
pub(crate) struct Progress {
    pub(crate) steps: Steps,
    pub(crate) differences: Vec<Difference>,
    pub(crate) state: SeenState,
    /// Whether the last look has failed.
    pub(crate) cannot_look: bool,
    /// The dependencies, by alias, without whose states it cannot go on.
    pub(crate) unknown: Vec<String>,
}

impl Progress {
    /// Returns what was done.
    pub(crate) fn done(&self) -> Vec<Action> {
        self.steps.done.iter().map(|done| done.action.clone()).collect()
    }
}

impl Convergence<'_> {
    /// Goes on to the end, or to what stops it.
    pub(crate) async fn run(&self, progress: &mut Progress) -> Result<Outcome, Outcome> {
        let state = match self.check(progress).await? {
            Found::Valid(state) if self.opened.program().is_some() => {
                progress.state = SeenState::Known(state.into());
                return Ok(Outcome::RunOnly);
            }
            Found::Valid(state) => state,
            Found::Unknown(aliases) => return Err(unknown(aliases, progress)),
            Found::Stale(amiss) if self.readonly => return Ok(read_only(amiss, progress)),
            Found::Stale(amiss) if self.noop => return Ok(leave_alone(amiss, progress)),
            Found::Stale(amiss) => {
                let Amiss { differences, actions, shutdown, after, .. } = amiss;
                let change = Change { differences, shutdown, actions };
                if let Err(refused) = self.approve(&change, after.as_deref()).await {
                    progress.differences = change.differences;
                    progress.steps.remaining.extend(change.actions);
                    return Err(refused);
                }
                progress.differences = change.differences;
                self.act(change.actions, progress).await?;
                self.verify_foreseen(after.as_deref(), progress).await?
            }
        };
        let state = self.refresh(progress).await?.unwrap_or(state);
        progress.state = SeenState::Known(state.into());
        let is_changed = !progress.steps.done.is_empty() || !progress.differences.is_empty();
        Ok(if is_changed { Outcome::Changed } else { Outcome::Unchanged })
    }

    async fn check(&self, progress: &mut Progress) -> Result<Found, Outcome> {
        let check = self.opened.check().await;
        let is_left_alone = self.noop || self.readonly;
        // Only what is one action is done together with others.
        if !matches!(&check, Ok(Found::Stale(amiss)) if amiss.actions.len() == 1 && !is_left_alone)
        {
            self.opened.leave();
        }
        progress.cannot_look = check.is_err();
        check.map_err(|err| cannot_look(self.halting, err))
    }

    /// Looks again after a change; the resource must be valid now.
    async fn verify(&self, progress: &mut Progress) -> Result<Value, Outcome> {
        match self.check(progress).await? {
            Found::Valid(state) => Ok(state),
            Found::Unknown(aliases) => Err(failed(not_known(&aliases))),
            Found::Stale(amiss) => Err(failed(format!(
                "it is still not as declared after its actions: {}",
                listed(&amiss.differences)
            ))),
        }
    }

    async fn approve(&self, change: &Change, after: Option<&Value>) -> Result<(), Outcome> {
        if self.is_approved {
            return Ok(());
        }
        let programs = self.halting.programs(self.opened).await;
        let config = self.opened.config();
        let grounds = Grounds { config: &config, after, programs: &programs };
        self.halting.approve(self.opened.name(), Wish::Change(change, grounds)).await
    }

    /// Looks again after a change; the resource must be valid now, and as it was foreseen.
    async fn verify_foreseen(
        &self,
        foreseen: Option<&Value>,
        progress: &mut Progress,
    ) -> Result<Value, Outcome> {
        let mut state = self.verify(progress).await?;
        let Some(foreseen) = foreseen else { return Ok(state) };
        if self.opened.otherwise(foreseen, &state).is_some() {
            // Somebody else may have changed it at this moment.
            state = self.verify(progress).await?;
        }
        match self.opened.otherwise(foreseen, &state) {
            None => Ok(state),
            Some(error) => Err(failed(error)),
        }
    }

    async fn act(&self, actions: Vec<Action>, progress: &mut Progress) -> Result<(), Outcome> {
        self.halting.run(self.opened, actions, &mut progress.steps, self.promise).await
    }

    /// Does what a notification asks for and returns the state after it.
    async fn refresh(&self, progress: &mut Progress) -> Result<Option<Value>, Outcome> {
        if !self.is_notified || self.noop {
            return Ok(None);
        }
        let Some(action) = self.opened.refresh(&progress.done()).map_err(failed)? else {
            return Ok(None);
        };
        let programs = self.halting.programs(self.opened).await;
        let config = self.opened.config();
        let grounds = Grounds { config: &config, after: None, programs: &programs };
        let wish = Wish::Refresh(&action, grounds);
        if let Err(refused) = self.halting.approve(self.opened.name(), wish).await {
            progress.steps.remaining.push(action);
            return Err(refused);
        }
        self.promise.refreshes();
        self.act(vec![action], progress).await?;
        self.verify(progress).await.map(Some)
    }
}

/// Returns a failure without an action.
pub(crate) fn failed(error: String) -> Outcome {
    Outcome::Failed { at: None, error }
}

/// An error of looking while the run is told to stop is most likely the stop's doing.
pub(crate) fn cannot_look(halting: &Halting, error: String) -> Outcome {
    if halting.is_stopped() { Outcome::Halted { at: None, by: Halt::Stop } } else { failed(error) }
}

/// Says that states are not known.
pub(crate) fn not_known(aliases: &[String]) -> String {
    format!("the states of {} are not known", aliases.join(", "))
}

/// Says that facts were not known when it was to be known which resources there are.
pub(crate) fn not_known_at_load(aliases: &[String]) -> String {
    let facts = aliases.iter().map(|alias| match is_fact_alias(alias) {
        true => format!("the {alias}"),
        false => format!("the fact of {alias}"),
    });
    let facts = facts.collect::<Vec<_>>().join(" and ");
    let were = if aliases.len() == 1 { "was" } else { "were" };
    format!("{facts} {were} not known when the manifest was loaded: apply again")
}

fn unknown(aliases: Vec<String>, progress: &mut Progress) -> Outcome {
    let outcome = failed(not_known(&aliases));
    progress.unknown = aliases;
    outcome
}

/// Takes over the state of a resource that is only read.
fn read_only(amiss: Amiss, progress: &mut Progress) -> Outcome {
    progress.state = amiss.current.map_or(SeenState::Never, |state| SeenState::Known(state.into()));
    Outcome::Unchanged
}

fn leave_alone(amiss: Amiss, progress: &mut Progress) -> Outcome {
    progress.differences = amiss.differences;
    progress.steps.remaining.extend(amiss.actions);
    progress.state = amiss.current.map_or(SeenState::Never, |state| SeenState::Known(state.into()));
    Outcome::Noop
}
