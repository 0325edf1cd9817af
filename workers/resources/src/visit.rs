//! One visit of a resource, and what it has come to.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;

use crate::account::{Accounted, Done, Outcome};
use crate::action::Action;
use crate::context::Notice;
use crate::declaration::{Declaration, DependencyState};
use crate::foresight::Earlier;
use crate::observer::{Happened, What};
use crate::planned::{Change, PlannedResource, Refresh, Verdict};
use crate::schedule::{self, Ending};
use crate::seal::Seal;

/// A visit of a resource under plan, apply or run, and what it has come to.
///
/// It is filled while it goes on, so what was done is known wherever it ends. The entries of plans
/// and accounts, the events, and what later visits know of the resource are views of it.
#[derive(Clone)]
pub(crate) struct Visit {
    pub(crate) name: String,
    pub(crate) kind: String,
    /// Whether the resource has left its manifest, and is put back as it was before.
    pub(crate) is_put_back: bool,
    /// Whether the resource is declared to be left alone, whatever differs.
    pub(crate) is_left_alone: bool,
    /// The notifications of the resource. The visit answers them.
    pub(crate) notices: Vec<Notice>,
    /// The step that the visit has reached. If it has failed, it has failed there.
    pub(crate) step: Step,
    /// What differed before the first action. Of the actions, those that were not begun are here:
    /// in a plan all of them.
    pub(crate) change: Change,
    /// What is known of the state after that change, if the resource is not as declared.
    pub(crate) after: Option<Arc<Value>>,
    /// The answer to the notifications, in a plan.
    pub(crate) answer: Option<Action>,
    /// Whether all that is to be done is approved already.
    pub(crate) is_approved: bool,
    /// The actions that have finished, whatever came after them.
    pub(crate) done: Vec<Done>,
    /// The actions that earlier visits of the same command have begun and not finished.
    pub(crate) begun: Vec<Done>,
    /// What others may know of the state; none if it will not be known in this run.
    pub(crate) state: Option<DependencyState>,
    /// How the visit has ended, or how it would end if nothing else happened.
    pub(crate) end: Outcome,
    /// What was done, or would be, for those that see it.
    pub(crate) actions: Arc<[Action]>,
    pub(crate) changes: Changes,
    /// What is bound to the plan that does not show, if the plan is sealed.
    pub(crate) seal: Option<Seal>,
    /// Whether other resources may be declared after the change.
    pub(crate) declares_others: bool,
    /// What comes before the resources after this one, in a plan.
    pub(crate) earlier: Earlier,
    /// Whether an earlier apply of the same command has made the visit.
    pub(crate) is_passed: bool,
}

/// Shows no values: nothing is hidden in the states.
impl fmt::Debug for Visit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, kind, step, end, .. } = self;
        let mut shown = f.debug_struct("Visit");
        shown.field("name", name).field("kind", kind).field("step", step);
        shown.field("end", end).finish_non_exhaustive()
    }
}

/// A step of a visit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Step {
    /// The config is rendered, and the kind makes the resource of it.
    Prepare,
    /// The resource is opened.
    Open,
    /// The resource is looked at, before or after actions.
    Look,
    /// What a look has found is judged, and actions are done.
    Act,
}

/// Whether a resource has changed or will.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Changes {
    #[default]
    No,
    Maybe,
    Yes,
}

impl Visit {
    /// Returns a visit that begins.
    pub(crate) fn new(declaration: &Declaration, notices: Vec<Notice>) -> Self {
        Self {
            name: declaration.name.clone(),
            kind: declaration.kind.clone(),
            is_put_back: declaration.is_put_back(),
            is_left_alone: declaration.noop && !declaration.readonly,
            notices,
            step: Step::Prepare,
            change: Change::default(),
            after: None,
            answer: None,
            is_approved: false,
            done: Vec::new(),
            begun: Vec::new(),
            state: None,
            end: Outcome::Unchanged,
            actions: Arc::default(),
            changes: Changes::No,
            seal: None,
            declares_others: false,
            earlier: Earlier::default(),
            is_passed: false,
        }
    }

    /// Notes how the visit has ended.
    pub(crate) fn close(&mut self, ended: Result<Outcome, Outcome>) {
        if ended.is_err() {
            (self.answer, self.changes) = (None, Changes::No);
        }
        let (Ok(end) | Err(end)) = ended;
        let wanted = if end == Outcome::Changed { &self.change.actions[..] } else { &[][..] };
        let done = self.done.iter().map(|done| &done.action);
        self.actions = done.chain(wanted).chain(&self.answer).cloned().collect();
        if matches!(end, Outcome::MayChange { .. }) {
            self.changes = Changes::Maybe;
        } else if !self.actions.is_empty() {
            self.changes = Changes::Yes;
        }
        self.end = end;
    }

    /// Returns the actions that were done, and those that are still wanted.
    pub(crate) fn all_actions(&self) -> Vec<Action> {
        let done = self.done.iter().map(|done| &done.action);
        done.chain(&self.change.actions).cloned().collect()
    }

    /// Returns whether the visit has failed because it could not look at the resource.
    pub(crate) fn has_failed_to_look(&self) -> bool {
        self.step == Step::Look && matches!(self.end, Outcome::Failed { .. })
    }

    /// Returns the resource because of which those that need this one cannot go on: this one, or
    /// one before it.
    pub(crate) fn blocked_by(&self) -> Option<&str> {
        match &self.end {
            Outcome::Skipped { because } => Some(because),
            end => (!end.is_good()).then_some(&*self.name),
        }
    }

    /// Returns the attributes that were not as declared.
    pub(crate) fn differing(&self) -> Vec<String> {
        let differences = self.change.differences.iter();
        differences.map(|difference| difference.attribute.clone()).collect()
    }

    /// Returns the names of the resources and rules that notify this one.
    pub(crate) fn notified_by(&self) -> Vec<String> {
        self.notices.iter().map(|notice| notice.by.clone()).collect()
    }

    /// Returns the notification of those that this resource notifies.
    pub(crate) fn notice(&self) -> Notice {
        Notice::new(&self.name, self.differing(), Arc::clone(&self.actions))
    }

    /// Returns how the visit has ended, for the schedule of a pass.
    pub(crate) fn ending(&self) -> Ending {
        Ending::new(match &self.end {
            Outcome::Failed { .. } => schedule::Outcome::Failed,
            end if !end.is_good() => schedule::Outcome::Stopped,
            _ if self.is_left_alone => schedule::Outcome::LeftAlone,
            _ => schedule::Outcome::Good,
        })
    }

    /// Returns the event that the resource was changed, or could not be. It names the actions that
    /// were done, and the action that has failed.
    pub(crate) fn event(&self, event: What, (why, took): (&str, Duration)) -> Happened {
        let failed = match &self.end {
            Outcome::Failed { at, .. } => at.as_ref(),
            _ => None,
        };
        let event = Happened::new(event, (&self.name, &self.kind), (why, took));
        event.with(&self.change.differences, &self.done, failed)
    }

    /// Returns the event of an apply, if the resource was changed or could not be.
    pub(crate) fn applied(&self, took: Duration) -> Option<Happened> {
        let (what, error) = match &self.end {
            Outcome::Changed if self.change.differences.is_empty() => (What::Refreshed, None),
            Outcome::Changed => (What::Changed, None),
            Outcome::Failed { error, .. } => (What::Failed, Some(error.clone())),
            // What was done before it was halted or refused is done.
            _ if !self.done.is_empty() => (What::Changed, None),
            _ => return None,
        };
        Some(Happened { error, ..self.event(what, ("apply", took)) })
    }

    /// Returns the entry of an account.
    pub(crate) fn accounted(self) -> Accounted {
        let missed = if self.end.is_good() { Vec::new() } else { self.notified_by() };
        Accounted {
            name: self.name,
            kind: self.kind,
            is_put_back: self.is_put_back,
            outcome: self.end,
            differences: self.change.differences,
            done: self.done,
            begun: self.begun,
            remaining: self.change.actions,
            missed,
        }
    }

    /// Returns the entry of a plan.
    pub(crate) fn planned(self) -> PlannedResource {
        let by = self.notified_by();
        let verdict = match self.end {
            Outcome::Unchanged => Verdict::Unchanged,
            Outcome::Changed => Verdict::Changes(self.change),
            Outcome::Noop => Verdict::Noop(self.change),
            Outcome::MayChange { because, reason } => Verdict::MayChange { because, reason },
            Outcome::RunOnly => Verdict::RunOnly,
            Outcome::Failed { error, .. } => Verdict::Failed { error },
            Outcome::Refused { because } | Outcome::Skipped { because } => {
                Verdict::Skipped { because }
            }
            Outcome::Halted { by, .. } | Outcome::NotAttempted { by } => {
                Verdict::Failed { error: by.to_string() }
            }
        };
        PlannedResource {
            name: self.name,
            kind: self.kind,
            is_put_back: self.is_put_back,
            declares_others: self.declares_others,
            verdict,
            refresh: self.answer.map(|action| Refresh { by, action }),
            seal: self.seal,
        }
    }

    /// Returns all that was done by a visit and by a later one. It has ended as the later one.
    #[must_use]
    pub(crate) fn and(self, later: Self) -> Self {
        let differences = [self.change.differences, later.change.differences].concat();
        let done = [self.done, later.done].concat();
        let unfinished = self.end.unfinished().cloned().into_iter();
        let begun: Vec<_> = self.begun.into_iter().chain(unfinished).chain(later.begun).collect();
        let end = match later.end {
            // It may have failed in, or after, an action that was enough.
            Outcome::Unchanged if !done.is_empty() || !begun.is_empty() => Outcome::Changed,
            end => end,
        };
        let change = Change { differences, ..later.change };
        Self { change, done, begun, end, ..later }
    }
}

#[cfg(test)]
mod tests {
    use super::Visit;
    use crate::account::{Done, Halt, Outcome};
    use crate::action::Action;
    use crate::declaration::Config;
    use crate::literal::Literal;

    fn visit(end: Outcome, actions: &[&str]) -> Visit {
        let declaration = Literal::new(Config::default()).declare("/".as_ref(), "page", "file");
        let done = actions.iter().map(|name| Done { action: Action::new(name), log: Vec::new() });
        Visit { end, done: done.collect(), ..Visit::new(&declaration, Vec::new()) }
    }

    #[test]
    fn an_earlier_action_is_a_change_if_a_later_visit_finds_the_resource_as_declared() {
        let failed = || Outcome::Failed { at: None, error: "x".to_owned() };
        let halted = Outcome::NotAttempted { by: Halt::Stop };
        for (first, later, expected) in [
            (visit(Outcome::Changed, &["write"]), Outcome::Unchanged, Outcome::Changed),
            (visit(failed(), &["write"]), Outcome::Unchanged, Outcome::Changed),
            (visit(failed(), &[]), Outcome::Unchanged, Outcome::Unchanged),
            (visit(Outcome::Changed, &["write"]), failed(), failed()),
            (visit(Outcome::Unchanged, &[]), halted.clone(), halted),
        ] {
            let all = first.clone().and(visit(later.clone(), &[]));

            assert_eq!((all.end, all.done), (expected, first.done), "{later:?}");
        }
    }

    #[test]
    fn a_begun_action_is_accounted_for_however_later_visits_end() {
        let begun = Done { action: Action::new("write"), log: vec!["half".to_owned()] };
        let failed = Outcome::Failed { at: Some(begun.clone()), error: "x".to_owned() };
        for (later, expected) in
            [(Outcome::Unchanged, Outcome::Changed), (Outcome::Noop, Outcome::Noop)]
        {
            let later = visit(later, &[]);
            let all = visit(failed.clone(), &[]).and(later.clone()).and(later).accounted();

            let text = all.to_string();
            assert_eq!((all.outcome, all.begun), (expected, vec![begun.clone()]));
            assert!(text.contains("    begun: write\n      | half\n"), "{text}");
        }
    }
}
