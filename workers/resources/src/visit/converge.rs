//! One resource from what it is to what it should be: the same under plan, apply and run.

use serde_json::Value;

use crate::declare::action::Action;
use crate::declare::declaration::{Declaration, DependencyState};
use crate::report::account::Outcome;
use crate::report::found::{Found, Stale, listed};
use crate::report::planned::Change;
use crate::report::seal::Basis;
use crate::visit::announcement::Announcement;
use crate::visit::approval::Proposal;
use crate::visit::gatekeeper::Gatekeeper;
use crate::visit::inputs::{Inputs, not_known};
use crate::visit::opened::Opened;
use crate::visit::{Changes, Step, Visit};

/// A resource that is to be made as declared. In a plan nothing is done.
#[derive(Debug)]
pub(crate) struct Convergence<'a> {
    pub(crate) opened: &'a Opened,
    pub(crate) declaration: &'a Declaration,
    pub(crate) inputs: &'a Inputs,
    pub(crate) gatekeeper: &'a Gatekeeper,
    /// What is put on disk before anything is done.
    pub(crate) announcement: &'a Announcement,
}

impl Convergence<'_> {
    /// Goes on to the end, or to what stops it. In a plan it goes on to the first action.
    pub(crate) async fn run(&self, visit: &mut Visit) -> Result<Outcome, Outcome> {
        let state = match self.look(visit).await? {
            Found::Unknown(aliases) => return Err(self.inputs.unknown(&aliases)),
            Found::Valid(state) if self.opened.program().is_some() => {
                visit.state = Some(DependencyState::Known(state.into()));
                return Ok(Outcome::RunOnly);
            }
            Found::Valid(state) => state,
            Found::Stale(amiss) if self.is_left_alone() => {
                return Ok(self.leave_alone(amiss, visit));
            }
            Found::Stale(Stale { differences, actions, shutdown, after, is_each_time, .. }) => {
                visit.is_each_time = is_each_time;
                visit.change = Change { differences, shutdown, actions };
                visit.after = after;
                if self.is_plan() {
                    return self.foresee(visit).map_err(Outcome::failed);
                }
                self.approve(visit).await?;
                stop_first(visit);
                self.act(visit).await?;
                self.verify_foreseen(visit).await?
            }
        };
        if self.is_plan() {
            return self.foresee_answer(state, visit).map_err(Outcome::failed);
        }
        let state = self.refresh(visit).await?.unwrap_or(state);
        visit.state = Some(DependencyState::Known(state.into()));
        let is_changed = !visit.done.is_empty() || !visit.change.differences.is_empty();
        Ok(if is_changed { Outcome::Changed } else { Outcome::Unchanged })
    }

    fn is_plan(&self) -> bool {
        self.inputs.foresight.is_some()
    }

    fn is_left_alone(&self) -> bool {
        self.declaration.noop || self.declaration.readonly
    }

    /// Takes over the state of a resource that is not as declared, and is left so.
    fn leave_alone(&self, amiss: Stale, visit: &mut Visit) -> Outcome {
        let Stale { current, differences, actions, shutdown, after, .. } = amiss;
        visit.state = current.map(|state| DependencyState::Known(state.into()));
        visit.after = after;
        if self.declaration.readonly {
            return Outcome::Unchanged;
        }
        visit.change = Change { differences, shutdown, actions };
        Outcome::Noop
    }

    /// Takes over what is known of the state after a change.
    fn foresee(&self, visit: &mut Visit) -> Result<Outcome, String> {
        visit.answer = self.answer(visit)?.filter(|_| !visit.notices.is_empty());
        // An answer may change the state once more.
        let after = visit.after.clone().filter(|_| visit.answer.is_none());
        visit.state = Some(match after {
            None => DependencyState::Unknown,
            Some(after) if self.opened.is_whole(&after) => DependencyState::Known(after),
            Some(after) => DependencyState::Foreseen(after),
        });
        visit.changes = Changes::Yes;
        Ok(Outcome::Changed)
    }

    /// Takes over the state of a resource that is as declared, unless an answer to a notification
    /// may change it.
    fn foresee_answer(&self, state: Value, visit: &mut Visit) -> Result<Outcome, String> {
        let answer = self.answer(visit)?;
        if answer.is_some() && visit.notices.is_empty() {
            let because = self.inputs.perhaps_by.clone();
            return Ok(Outcome::MayChange { because, reason: "a change notifies it".to_owned() });
        }
        if answer.is_none() {
            visit.state = Some(DependencyState::Known(state.into()));
        }
        visit.answer = answer;
        Ok(Outcome::Unchanged)
    }

    async fn look(&self, visit: &mut Visit) -> Result<Found, Outcome> {
        visit.step = Step::Look;
        let found = self.opened.check().await;
        // Only what is one action is done together with others.
        let is_one = |it: &Stale| it.actions.len() == 1 && it.shutdown.is_none();
        if !matches!(&found, Ok(Found::Stale(it)) if is_one(it) && !self.is_left_alone()) {
            self.opened.leave();
        }
        let found = found.map_err(|err| self.inputs.cannot_look(self.gatekeeper.stop(), err))?;
        visit.step = Step::Act;
        Ok(found)
    }

    /// Looks again after a change; the resource must be valid now.
    async fn verify(&self, visit: &mut Visit) -> Result<Value, Outcome> {
        match self.look(visit).await? {
            Found::Valid(state) => Ok(state),
            Found::Unknown(aliases) => Err(Outcome::failed(not_known(&aliases))),
            Found::Stale(amiss) => Err(Outcome::failed(format!(
                "it is still not as declared after its actions: {}",
                listed(&amiss.differences)
            ))),
        }
    }

    /// Looks again after a change; the resource must be valid now, and as it was foreseen.
    async fn verify_foreseen(&self, visit: &mut Visit) -> Result<Value, Outcome> {
        let mut state = self.verify(visit).await?;
        let Some(foreseen) = visit.after.take() else { return Ok(state) };
        if self.opened.otherwise(&foreseen, &state).is_some() {
            // Somebody else may have changed it at this moment.
            state = self.verify(visit).await?;
        }
        match self.opened.otherwise(&foreseen, &state) {
            None => Ok(state),
            Some(error) => Err(Outcome::failed(error)),
        }
    }

    async fn approve(&self, visit: &Visit) -> Result<(), Outcome> {
        // An action that came before all others was approved with the whole change.
        if !visit.done.is_empty() {
            return Ok(());
        }
        self.gatekeeper.approve_change(self.opened, &visit.change, visit.after.as_deref()).await
    }

    async fn act(&self, visit: &mut Visit) -> Result<(), Outcome> {
        self.gatekeeper.run(self.opened, visit, self.announcement).await
    }

    /// Does what a notification asks for, and returns the state after it.
    async fn refresh(&self, visit: &mut Visit) -> Result<Option<Value>, Outcome> {
        let Some(action) = self.answer(visit).map_err(Outcome::failed)? else {
            return Ok(None);
        };
        visit.change.actions = vec![action.clone()];
        let programs = self.gatekeeper.programs(self.opened).await;
        let config = self.opened.config();
        let basis = Basis { config: &config, after: None, programs: &programs };
        self.gatekeeper.approve(self.opened.name(), Proposal::Refresh(&action, basis)).await?;
        self.announcement.refreshes();
        self.act(visit).await?;
        self.verify(visit).await.map(Some)
    }

    /// Returns what the notifications ask for, after all other actions.
    fn answer(&self, visit: &Visit) -> Result<Option<Action>, String> {
        let is_notified = !visit.notices.is_empty() || !self.inputs.perhaps_by.is_empty();
        if !is_notified || self.declaration.noop {
            return Ok(None);
        }
        self.opened.refresh(&visit.all_actions())
    }
}

/// Puts the shutdown-first action before the others, unless a pass has done it already, before those
/// of all resources.
fn stop_first(visit: &mut Visit) {
    let action = visit.change.shutdown.take();
    if let Some(action) = action.filter(|_| visit.done.is_empty()) {
        visit.change.actions.insert(0, action);
    }
}
