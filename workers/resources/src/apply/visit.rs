//! The visit of one resource by an apply.

use std::slice::from_ref;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use crate::account::{Accounted, Outcome};
use crate::apply::passed::Applied;
use crate::apply::shutdown::Prior;
use crate::asking::Turn;
use crate::converge::{Convergence, Progress, cannot_look, failed, not_known, not_known_at_load};
use crate::declaration::Declaration;
use crate::halting::{Halting, Steps};
use crate::inputs::{Changes, Inputs, Seen};
use crate::last_good;
use crate::make::{Setting, Unmade, make};
use crate::notifying::{Promise, acknowledge};
use crate::observer::{Happened, What};
use crate::opened::Opened;
use crate::reversal::Reversal;

/// One resource to be made as declared.
#[derive(Debug)]
pub(crate) struct Visit {
    /// What was done to the resource before, if that is taken over.
    pub(crate) passed: Option<Applied>,
    pub(crate) declaration: Declaration,
    pub(crate) setting: Setting,
    pub(crate) inputs: Inputs,
    /// Whom the resource notifies.
    pub(crate) targets: Vec<Arc<str>>,
    pub(crate) halting: Arc<Halting>,
    pub(crate) prior: Prior,
    /// Asks the schedule before each action; none if the resource is skipped.
    pub(crate) turn: Option<Turn>,
}

impl Visit {
    pub(crate) async fn run(mut self) -> Applied {
        if let Some(applied) = self.passed.take() {
            return applied;
        }
        let began = Instant::now();
        let mut progress =
            Progress { steps: std::mem::take(&mut self.prior.steps), ..Progress::default() };
        let (facilities, name) = (self.setting.facilities.clone(), self.declaration.name.clone());
        let (records, targets) = (facilities.records(), std::mem::take(&mut self.targets));
        let promise = Promise::new(records, &name, targets);
        let outcome = match self.advance(&mut progress, &promise).await {
            Ok(outcome) | Err(outcome) => outcome,
        };
        // Of what is left alone, the answer is still owed.
        if outcome.is_good() && (!self.declaration.noop || self.declaration.readonly) {
            let due = std::mem::take(&mut self.inputs.due);
            acknowledge(records, &name, &due).await;
        }
        if let Some(thing) = self.declaration.record.as_ref().filter(|_| outcome.is_good()) {
            Reversal::forget(records, from_ref(thing)).await;
        }
        if matches!(outcome, Outcome::Failed { .. }) {
            self.halting.fail();
        }
        let applied = self.account(outcome, progress);
        if let Some(observer) = facilities.observer() {
            if let Some(event) = happened(&applied.accounted, began.elapsed()) {
                observer.happened(&event);
            }
            observer.accounted(&applied.accounted);
        }
        applied
    }

    /// Goes on to the end, or to what stops it.
    async fn advance(
        &mut self,
        progress: &mut Progress,
        promise: &Promise<'_>,
    ) -> Result<Outcome, Outcome> {
        if let Some(outcome) = self.prior.outcome.take() {
            return Err(outcome);
        }
        if let Some(because) = self.inputs.blocked_by.clone() {
            return Err(self.blocked(because));
        }
        if let Some(by) = self.halting.halt() {
            return Err(Outcome::NotAttempted { by });
        }
        let known = (self.inputs.used.clone(), self.inputs.notices.clone());
        let made =
            make(&self.declaration, &self.setting, known).map_err(|unmade| match unmade {
                Unmade::Unknown(aliases) => self.never_known(&aliases),
                Unmade::Wrong(error) => failed(error),
            })?;
        let opened = Opened::new(made).await;
        let opened = opened.map_err(|err| cannot_look(&self.halting, err))?;
        opened.join(self.turn.take());
        let convergence = Convergence {
            opened: &opened,
            halting: &self.halting,
            noop: self.declaration.noop,
            readonly: self.declaration.readonly,
            is_notified: !self.inputs.notices.is_empty(),
            is_approved: self.prior.is_approved,
            promise,
        };
        let outcome = convergence.run(progress).await;
        if let Ok(Outcome::Changed | Outcome::Unchanged) = outcome
            && !self.declaration.is_put_back()
        {
            let records = self.setting.facilities.records();
            last_good::note(records, &self.declaration, opened.config());
        }
        let closed = opened.close().await.map_err(failed);
        if !progress.unknown.is_empty() {
            return Err(self.never_known(&progress.unknown));
        }
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
            None if self.declaration.is_unsure => failed(not_known_at_load(aliases)),
            None => failed(not_known(aliases)),
        }
    }

    fn account(self, outcome: Outcome, progress: Progress) -> Applied {
        let is_put_back = self.declaration.is_put_back();
        let (name, kind) = (self.declaration.name.clone(), self.declaration.kind.clone());
        let blocked_by = match &outcome {
            Outcome::Skipped { because } => Some(because.clone()),
            Outcome::Failed { .. }
            | Outcome::Refused { .. }
            | Outcome::Halted { .. }
            | Outcome::NotAttempted { .. } => Some(name.clone()),
            _ => None,
        };
        let missed = if blocked_by.is_some() { self.inputs.notified_by() } else { Vec::new() };
        let Steps { done, remaining } = progress.steps;
        // Also a resource that failed half-way has changed for those that it notifies.
        let changes = if done.is_empty() { Changes::No } else { Changes::Yes };
        let actions = done.iter().map(|done| done.action.clone()).collect();
        let differences = progress.differences;
        let differing = differences.iter().map(|it| it.attribute.clone()).collect();
        let state = progress.state;
        // Only a plan asks for it.
        let (changing_before, making) = (None, None);
        let seen = Seen { state, blocked_by, changes, changing_before, making, differing, actions };
        let accounted = Accounted {
            name,
            kind,
            is_put_back,
            outcome,
            differences,
            done,
            begun: Vec::new(),
            remaining,
            missed,
        };
        Applied { accounted, seen, is_passed: false }
    }
}

/// Returns what apply has done to a resource, or has failed to do.
fn happened(accounted: &Accounted, took: Duration) -> Option<Happened> {
    let Accounted { name, kind, outcome, differences, done, .. } = accounted;
    let (what, error) = match outcome {
        Outcome::Changed if differences.is_empty() => (What::Refreshed, None),
        Outcome::Changed => (What::Changed, None),
        Outcome::Failed { error, .. } => (What::Failed, Some(error.clone())),
        // What was done before it was halted or refused is done.
        _ if !done.is_empty() => (What::Changed, None),
        _ => return None,
    };
    let failed = match outcome {
        Outcome::Failed { at, .. } => at.as_ref(),
        _ => None,
    };
    let event = Happened::new(what, (name, kind), ("apply", took));
    Some(Happened { error, ..event.with(differences, done, failed) })
}
