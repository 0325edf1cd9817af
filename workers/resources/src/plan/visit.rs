//! The visit of one resource by a plan.

use std::fmt;
use std::future::Future;
use std::sync::Arc;

use serde_json::Value;

use crate::action::Action;
use crate::declaration::Declaration;
use crate::foresight::{Earlier, Foresight};
use crate::found::{Amiss, Found};
use crate::inputs::{Changes, Inputs, Seen, SeenState};
use crate::make::{Setting, Unmade, make};
use crate::opened::Opened;
use crate::order::Order;
use crate::planned::{Change, PlannedResource, Refresh, Verdict};
use crate::schedule::{Ending, Outcome};
use crate::seal::{Grounds, Seal};

/// What a plan knows of a resource it has looked at.
#[derive(Debug)]
pub(crate) struct Look {
    pub(crate) planned: PlannedResource,
    /// What apply begins with, where the look is to be followed by that.
    pub(crate) shutdown: Option<Shutdown>,
    seen: Seen,
}

impl Look {
    /// Returns how the visit has ended, for the schedule. A resource that would change is good, so
    /// those after it are looked at.
    pub(crate) fn ending(&self) -> Ending {
        Ending::new(match &self.planned.verdict {
            Verdict::Failed { .. } => Outcome::CannotLook,
            Verdict::Skipped { .. } => Outcome::Stopped,
            _ => Outcome::Good,
        })
    }

    /// Returns how the resource would change, if it would.
    pub(crate) fn change(&self) -> Option<&Change> {
        match &self.planned.verdict {
            Verdict::Changes(change) => Some(change),
            _ => None,
        }
    }
}

/// A shutdown-first action, and the resource for which it is to be done.
pub(crate) struct Shutdown {
    pub(crate) action: Action,
    pub(crate) opened: Opened,
    /// The state that is foreseen after the change.
    pub(crate) after: Option<Arc<Value>>,
}

impl fmt::Debug for Shutdown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("Shutdown");
        shown.field("action", &self.action.name).field("opened", &self.opened);
        shown.finish_non_exhaustive()
    }
}

/// What a look is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// To show what would be done.
    Plan,
    /// To do what comes first of all.
    ShutDown,
}

/// Returns the work of looking at one node.
pub(crate) fn visit(
    order: &Order,
    declarations: &[Declaration],
    node: usize,
    looks: &[Option<Look>],
    (setting, purpose): (Setting, Purpose),
) -> impl Future<Output = Look> + Send + use<> {
    let nothing = Seen::default();
    let inputs =
        Inputs::gather(order, declarations, (node, setting.facilities.records()), |node| {
            looks[node].as_ref().map_or(&nothing, |look| &look.seen)
        });
    let declaration = declarations[node].clone();
    let (changing, making) = (inputs.changing, inputs.making);
    let foresight = setting.foresight.as_ref();
    let earlier = Earlier { changing, making };
    let foresight = foresight.map(|foresight| foresight.of(node, earlier));
    let setting = Setting { foresight, ..setting };
    async move {
        let found = find(&declaration, (&setting, purpose), &inputs).await;
        let mut planned = PlannedResource {
            name: declaration.name.clone(),
            kind: declaration.kind.clone(),
            is_put_back: declaration.record.is_some(),
            declares_others: false,
            verdict: found.verdict,
            refresh: found.refresh,
            seal: found.seal,
        };
        let changes = changes(&planned);
        planned.declares_others = declaration.declares_others && changes != Changes::No;
        let blocked_by = match &planned.verdict {
            Verdict::Failed { .. } => Some(declaration.name.clone()),
            Verdict::Skipped { because } => Some(because.clone()),
            _ => None,
        };
        let (actions, differing) = actions(&planned);
        let changing_before = changing;
        let makes = found.makes_unnamed && changes != Changes::No;
        let making = if makes { Some(node) } else { making };
        let state = found.state;
        let seen = Seen { state, blocked_by, changes, changing_before, making, differing, actions };
        Look { planned, shutdown: found.shutdown, seen }
    }
}

fn changes(planned: &PlannedResource) -> Changes {
    match &planned.verdict {
        _ if planned.is_changing() => Changes::Yes,
        Verdict::MayChange { .. } => Changes::Maybe,
        _ => Changes::No,
    }
}

/// Returns what would be done, and the attributes that are not as declared.
fn actions(planned: &PlannedResource) -> (Arc<[Action]>, Vec<String>) {
    let (actions, differences) = match &planned.verdict {
        Verdict::Changes(change) => (&change.actions[..], &change.differences[..]),
        _ => (&[][..], &[][..]),
    };
    let refresh = planned.refresh.iter().map(|refresh| &refresh.action);
    let differing = differences.iter().map(|it| it.attribute.clone()).collect();
    (actions.iter().chain(refresh).cloned().collect(), differing)
}

/// What looking at a resource has found.
struct Judged {
    verdict: Verdict,
    refresh: Option<Refresh>,
    shutdown: Option<Shutdown>,
    state: SeenState,
    seal: Option<Seal>,
    /// Whether it may make files that it does not name.
    makes_unnamed: bool,
}

impl From<Verdict> for Judged {
    fn from(verdict: Verdict) -> Self {
        let (refresh, shutdown, seal) = (None, None, None);
        Self { verdict, refresh, shutdown, state: SeenState::Later, seal, makes_unnamed: false }
    }
}

async fn find(
    declaration: &Declaration,
    (setting, purpose): (&Setting, Purpose),
    inputs: &Inputs,
) -> Judged {
    if let Some(because) = &inputs.blocked_by {
        return Verdict::Skipped { because: because.clone() }.into();
    }
    let known = (inputs.used.clone(), inputs.notices.clone());
    let made = match make(declaration, setting, known) {
        Ok(made) => made,
        Err(Unmade::Unknown(aliases)) => {
            if let Some(foresight) = &setting.foresight {
                foresight.note(&declaration.claims, false);
            }
            let makes_unnamed = declaration.makes_unnamed;
            return Judged { makes_unnamed, ..unknown(declaration, inputs, &aliases).into() };
        }
        Err(Unmade::Wrong(error)) => return Verdict::Failed { error }.into(),
    };
    let opened = match Opened::new(made).await {
        Ok(opened) => opened,
        Err(error) => {
            let makes_unnamed = declaration.makes_unnamed;
            return Judged { makes_unnamed, ..cannot_look(inputs, setting, error).into() };
        }
    };
    let found = opened.check().await;
    let after = match &found {
        Ok(Found::Stale(amiss)) => amiss.after.clone(),
        _ => None,
    };
    let seal = seal(setting, (&opened, inputs), after.as_deref()).await;
    let judged = match found {
        Ok(found) => judge(declaration, inputs, &opened, found),
        Err(error) => cannot_look(inputs, setting, error).into(),
    };
    let judged = Judged { seal, makes_unnamed: opened.makes_unnamed(declaration), ..judged };
    if let Some(foresight) = &setting.foresight {
        let is_sure = matches!(judged.verdict, Verdict::Changes(_));
        let may_change = matches!(judged.verdict, Verdict::MayChange { .. });
        if is_sure || may_change || judged.refresh.is_some() {
            foresight.note(&opened.claims(declaration), is_sure);
        }
    }
    if purpose == Purpose::ShutDown
        && let Verdict::Changes(Change { shutdown: Some(action), .. }) = &judged.verdict
    {
        let shutdown = Some(Shutdown { action: action.clone(), opened, after });
        return Judged { shutdown, ..judged };
    }
    match opened.close().await {
        Ok(()) => judged,
        Err(error) => Verdict::Failed { error }.into(),
    }
}

/// Returns what the resource is bound to, if the plan is sealed.
async fn seal(
    setting: &Setting,
    (opened, inputs): (&Opened, &Inputs),
    after: Option<&Value>,
) -> Option<Seal> {
    let salt = setting.salt.as_ref()?;
    let programs = opened.programs().await;
    let grounds = Grounds { config: &opened.config(), after, programs: &programs };
    Some(Seal { follows_changes: inputs.changing.is_some(), ..grounds.seal(salt) })
}

/// Judges a config whose expressions use states that are not known.
fn unknown(declaration: &Declaration, inputs: &Inputs, aliases: &[String]) -> Verdict {
    if let Some(because) = aliases.iter().find_map(|alias| inputs.never.get(alias)) {
        return Verdict::Skipped { because: because.clone() };
    }
    let because = declaration
        .dependencies
        .iter()
        .filter(|dependency| aliases.contains(&dependency.alias))
        .map(|dependency| dependency.resource.clone())
        .collect();
    Verdict::MayChange { because, reason: "its config is known after apply".to_owned() }
}

/// Judges an error of looking: what a resource before it has not done yet may be its cause.
fn cannot_look(inputs: &Inputs, setting: &Setting, error: String) -> Verdict {
    let mut because = inputs.unsure.clone();
    let seen = setting.foresight.iter().flat_map(Foresight::seen);
    because.extend(seen.filter(|name| !inputs.unsure.contains(name)));
    if because.is_empty() {
        // What changes further away may be the cause as well.
        because.extend(setting.foresight.as_ref().and_then(Foresight::changing));
    }
    if because.is_empty() {
        return Verdict::Failed { error };
    }
    Verdict::MayChange { because, reason: format!("it cannot be looked at yet: {error}") }
}

fn judge(declaration: &Declaration, inputs: &Inputs, opened: &Opened, found: Found) -> Judged {
    match found {
        Found::Unknown(aliases) => unknown(declaration, inputs, &aliases).into(),
        Found::Valid(state) if opened.program().is_some() => {
            Judged { state: SeenState::Known(state.into()), ..Verdict::RunOnly.into() }
        }
        Found::Valid(state) => {
            let (verdict, refresh) = match refresh(declaration, inputs, opened, &[]) {
                Ok(refreshed) => refreshed,
                Err(error) => return Verdict::Failed { error }.into(),
            };
            // A refresh may change the state.
            let is_known = refresh.is_none() && verdict.is_none();
            let state = if is_known { SeenState::Known(state.into()) } else { SeenState::Later };
            Judged { refresh, state, ..verdict.unwrap_or(Verdict::Unchanged).into() }
        }
        Found::Stale(amiss) => judge_amiss(declaration, inputs, opened, amiss),
    }
}

fn judge_amiss(
    declaration: &Declaration,
    inputs: &Inputs,
    opened: &Opened,
    amiss: Amiss,
) -> Judged {
    let Amiss { current, differences, actions, shutdown, after } = amiss;
    let state = current.map_or(SeenState::Never, |state| SeenState::Known(state.into()));
    if declaration.readonly {
        return Judged { state, ..Verdict::Unchanged.into() };
    }
    let change = Change { differences, shutdown, actions };
    if declaration.noop {
        return Judged { state, ..Verdict::Noop(change).into() };
    }
    match refresh(declaration, inputs, opened, &change.actions) {
        Ok((_, refresh)) => {
            // A refresh may change the state once more.
            let after = after.filter(|_| refresh.is_none());
            let state = after.map_or(SeenState::Later, |after| match opened.is_whole(&after) {
                true => SeenState::Known(after),
                false => SeenState::Foreseen(after),
            });
            Judged { refresh, state, ..Verdict::Changes(change).into() }
        }
        Err(error) => Verdict::Failed { error }.into(),
    }
}

/// Returns what a notification would bring about: that it may change, or a refresh.
fn refresh(
    declaration: &Declaration,
    inputs: &Inputs,
    opened: &Opened,
    done: &[Action],
) -> Result<(Option<Verdict>, Option<Refresh>), String> {
    let is_notified = !inputs.notices.is_empty() || !inputs.perhaps_by.is_empty();
    if declaration.noop || !is_notified {
        return Ok((None, None));
    }
    let Some(action) = opened.refresh(done)? else { return Ok((None, None)) };
    if inputs.notices.is_empty() {
        let reason = "a change notifies it".to_owned();
        let because = inputs.perhaps_by.clone();
        return Ok((Some(Verdict::MayChange { because, reason }), None));
    }
    Ok((None, Some(Refresh { by: inputs.notified_by(), action })))
}
