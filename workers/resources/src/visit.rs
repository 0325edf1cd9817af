//! One visit of a resource, and what it has come to.

use std::collections::HashSet;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;

use crate::base::text::cut_after;
use crate::declare::action::Action;
use crate::declare::declaration::{Declaration, DependencyState};
use crate::kind::context::Notice;
use crate::report::account::{Account, Accounted, Done, Halt, Outcome};
use crate::report::observer::{Event, EventKind};
use crate::report::planned::{Change, PlannedResource, Refresh, Verdict};
use crate::report::seal::Seal;
use crate::schedule;

pub(crate) mod active_watches;
pub(crate) mod announcement;
pub(crate) mod approval;
pub(crate) mod claims;
pub(crate) mod converge;
pub(crate) mod gatekeeper;
pub(crate) mod inputs;
pub(crate) mod last_good;
pub(crate) mod opened;
pub(crate) mod prepared;
mod reads;
pub(crate) mod supervised;
pub(crate) mod watching;

/// The length of the last line of a failed action in the text for people, in characters.
const LONGEST_LINE: usize = 200;

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
    /// Whether it differs at each apply, whatever the state of the machine.
    pub(crate) is_each_time: bool,
    /// What is known of the state after that change, if the resource is not as declared.
    pub(crate) after: Option<Arc<Value>>,
    /// The answer to the notifications, in a plan.
    pub(crate) answer: Option<Action>,
    /// The actions that have finished, whatever came after them.
    pub(crate) done: Vec<Done>,
    /// The actions that earlier visits of the same command have begun and not finished.
    pub(crate) begun: Vec<Done>,
    /// What others may know of the state; none if it will not be known in this run.
    pub(crate) state: Option<DependencyState>,
    /// How the visit has ended, or how it would end if nothing else happened.
    pub(crate) end: Outcome,
    /// Whether the resource was kept as it was declared before, under run.
    pub(crate) is_kept_as_before: bool,
    /// Why the resource is not as declared, although nothing has failed, under run.
    pub(crate) remark: Option<String>,
    /// Why the run is not at its end, although the resource is as declared.
    pub(crate) holds: Option<String>,
    /// What was done, or would be, for those that see it.
    pub(crate) actions: Arc<[Action]>,
    pub(crate) changes: Changes,
    /// What is bound to the plan that does not show, if the plan is sealed.
    pub(crate) seal: Option<Seal>,
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
    /// The resource is watched, under run.
    Watch,
    /// The resource is looked at, before or after actions.
    Look,
    /// What a look has found is judged, and actions are done.
    Act,
    /// The program of the resource is started, under run.
    Supervise,
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
            is_each_time: false,
            after: None,
            answer: None,
            done: Vec::new(),
            begun: Vec::new(),
            state: None,
            end: Outcome::Unchanged,
            is_kept_as_before: false,
            remark: None,
            holds: None,
            actions: Arc::default(),
            changes: Changes::No,
            seal: None,
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

    /// Returns whether an action has begun.
    pub(crate) fn has_acted(&self) -> bool {
        !self.done.is_empty() || self.end.unfinished().is_some()
    }

    /// Returns why the visit could not look at the resource, if it could not.
    pub(crate) fn look_error(&self) -> Option<&str> {
        match &self.end {
            Outcome::Failed { error, .. } if self.step == Step::Look => Some(error),
            _ => None,
        }
    }

    /// Returns the state as it is now, if others may know it.
    pub(crate) fn known_state(&self) -> Option<Arc<Value>> {
        match &self.state {
            Some(DependencyState::Known(state)) => Some(Arc::clone(state)),
            _ => None,
        }
    }

    /// Returns the resource that holds up those that need this one: this one, or one before it.
    pub(crate) fn blocked_by(&self) -> Option<&str> {
        match &self.end {
            Outcome::Skipped { because } => Some(because),
            Outcome::NeedsRun { .. } => None,
            end => (!end.is_good()).then_some(&*self.name),
        }
    }

    /// Returns the program, this resource or one before it, without which the dependents of this
    /// resource cannot be visited. Only `run` starts it.
    pub(crate) fn needs_run(&self) -> Option<&str> {
        match &self.end {
            Outcome::NeedsRun { because } => Some(because),
            Outcome::RunOnly => Some(&self.name),
            _ => None,
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

    /// Returns how the visit has ended, for the schedule.
    pub(crate) fn outcome(&self) -> schedule::Outcome {
        match &self.end {
            Outcome::Failed { .. } if self.is_kept_as_before => schedule::Outcome::KeptAsBefore,
            Outcome::Failed { .. } if matches!(self.step, Step::Prepare | Step::Look) => {
                schedule::Outcome::CannotLook
            }
            Outcome::Failed { .. } => schedule::Outcome::Failed,
            Outcome::NotAllowed => schedule::Outcome::NotAllowed,
            end if !end.is_good() => schedule::Outcome::Stopped,
            _ if self.is_left_alone => schedule::Outcome::LeftAlone,
            _ => schedule::Outcome::Good,
        }
    }

    /// Returns why the visit has failed or was interrupted, for people.
    pub(crate) fn trouble(&self) -> Option<String> {
        match &self.end {
            Outcome::Failed { at: Some(Done { action, log }), error } => {
                let said = log.iter().rfind(|line| !line.trim().is_empty());
                let said = said.filter(|line| !error.contains(line.trim()));
                let said = said.map(|line| format!("; it said: {}", cut_after(line, LONGEST_LINE)));
                Some(format!("{action}: {error}{}", said.unwrap_or_default()))
            }
            Outcome::Failed { at: None, error } => Some(error.clone()),
            end => (!end.is_good()).then(|| "it was interrupted".to_owned()),
        }
    }

    /// Returns all that the actions have said.
    pub(crate) fn output(&self) -> Vec<String> {
        let begun = self.done.iter().chain(self.end.unfinished());
        begun.flat_map(|done| &done.log).cloned().collect()
    }

    /// Returns the event that the resource was changed, or could not be. It names the actions that
    /// were done, and the action that has failed.
    pub(crate) fn event(&self, event: EventKind, why: &str, took: Duration) -> Event {
        let event = Event::new(event, (&self.name, &self.kind), (why, took));
        event.with(&self.change.differences, &self.done, self.end.failed_action())
    }

    /// Returns the event of an apply, if the resource was changed or could not be.
    pub(crate) fn applied(&self, took: Duration) -> Option<Event> {
        let (what, error) = match &self.end {
            Outcome::Changed if self.change.differences.is_empty() => (EventKind::Refreshed, None),
            Outcome::Changed => (EventKind::Changed, None),
            Outcome::Failed { error, .. } => (EventKind::Failed, Some(error.clone())),
            // What was done before it was halted or refused is done.
            _ if !self.done.is_empty() => (EventKind::Changed, None),
            _ => return None,
        };
        Some(Event { error, ..self.event(what, "apply", took) })
    }

    /// Returns the entry of an account.
    pub(crate) fn accounted(self) -> Accounted {
        let missed = if self.end.is_good() { Vec::new() } else { self.notified_by() };
        Accounted {
            name: self.name,
            kind: self.kind,
            is_put_back: self.is_put_back,
            is_each_time: self.is_each_time,
            outcome: self.end,
            differences: self.change.differences,
            done: self.done,
            begun: self.begun,
            remaining: self.change.actions,
            missed,
        }
    }

    /// Returns the entry of a plan.
    pub(crate) fn planned(self, declaration: &Declaration) -> PlannedResource {
        let by = self.notified_by();
        let verdict = match self.end {
            Outcome::Unchanged => Verdict::Unchanged,
            Outcome::Changed => Verdict::Changes(self.change),
            Outcome::Noop => Verdict::Noop(self.change),
            Outcome::MayChange { because, reason } => Verdict::MayChange { because, reason },
            Outcome::RunOnly => Verdict::RunOnly,
            Outcome::NeedsRun { because } => Verdict::NeedsRun { because },
            Outcome::Failed { error, .. } => Verdict::Failed { error },
            Outcome::Refused { because } | Outcome::Skipped { because } => {
                Verdict::Skipped { because }
            }
            Outcome::Halted { by, .. } | Outcome::NotAttempted { by } => {
                Verdict::Failed { error: by.to_string() }
            }
            Outcome::NotAllowed => {
                Verdict::Failed { error: "another resource comes first".to_owned() }
            }
        };
        PlannedResource {
            name: self.name,
            kind: self.kind,
            is_put_back: self.is_put_back,
            is_each_time: self.is_each_time,
            declares_others: declaration.declares_others && self.changes != Changes::No,
            verdict,
            refresh: self.answer.map(|action| Refresh { by, action }),
            seal: self.seal,
        }
    }

    /// Returns all that was done by a visit and by a later one. It has ended as the later one.
    #[must_use]
    pub(crate) fn and(self, later: Self) -> Self {
        let is_each_time = match (self.done.is_empty(), later.done.is_empty()) {
            (_, true) => self.is_each_time,
            (true, false) => later.is_each_time,
            (false, false) => self.is_each_time && later.is_each_time,
        };
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
        Self { change, is_each_time, done, begun, end, ..later }
    }
}

impl Account {
    /// Returns an account of each of these declarations that this account lacks: that the resource
    /// was not attempted. A caller leaves resources out of an apply while they are not known, and
    /// may go no further then.
    #[must_use]
    pub fn not_attempted(&self, declarations: &[Declaration], by: Halt) -> Vec<Accounted> {
        let names: HashSet<_> = self.resources.iter().map(|it| it.name.as_str()).collect();
        let others = declarations.iter().filter(|it| !names.contains(it.name.as_str()));
        let visits = others.map(|declared| {
            let end = Outcome::NotAttempted { by };
            Visit { end, ..Visit::new(declared, Vec::new()) }
        });
        visits.map(Visit::accounted).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::Visit;
    use crate::declare::action::Action;
    use crate::declare::declaration::Config;
    use crate::declare::literal::Literal;
    use crate::report::account::{Done, Halt, Outcome};

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
