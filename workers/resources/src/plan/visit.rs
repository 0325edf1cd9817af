use std::future::Future;

use crate::action::{Action, Description};
use crate::declaration::Declaration;
use crate::graph::Graph;
use crate::look::{Changes, Inputs, Made, Opened, Seen, SeenState, Setting, make};
use crate::plan::{Change, PlannedResource, Refresh, Verdict};
use crate::resource::{Check, Stale};

/// What a plan knows of a resource it has looked at.
#[derive(Debug)]
pub(crate) struct Look {
    pub(crate) planned: PlannedResource,
    /// The shutdown-first action; a plan drops it, apply begins with it.
    pub(crate) shutdown: Option<Action>,
    seen: Seen,
}

/// Returns the work of looking at one node.
pub(crate) fn visit(
    graph: &Graph,
    declarations: &[Declaration],
    node: usize,
    looks: &[Option<Look>],
    setting: Setting,
) -> impl Future<Output = Look> + Send + use<> {
    let nothing = Seen::default();
    let inputs = Inputs::gather(graph, declarations, node, |node| {
        looks[node].as_ref().map_or(&nothing, |look| &look.seen)
    });
    let declaration = declarations[node].clone();
    async move {
        let found = find(&declaration, &setting, &inputs).await;
        let planned = PlannedResource {
            name: declaration.name.clone(),
            kind: declaration.kind,
            verdict: found.verdict,
            refresh: found.refresh,
        };
        let changes = changes(&planned);
        let blocked_by = match &planned.verdict {
            Verdict::Failed { .. } => Some(declaration.name),
            Verdict::Skipped { because } => Some(because.clone()),
            _ => None,
        };
        let seen = Seen { state: found.state, blocked_by, changes };
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

/// What looking at a resource has found.
struct Found {
    verdict: Verdict,
    refresh: Option<Refresh>,
    shutdown: Option<Action>,
    state: SeenState,
}

impl From<Verdict> for Found {
    fn from(verdict: Verdict) -> Self {
        Self { verdict, refresh: None, shutdown: None, state: SeenState::Later }
    }
}

async fn find(declaration: &Declaration, setting: &Setting, inputs: &Inputs) -> Found {
    if let Some(because) = &inputs.blocked_by {
        return Verdict::Skipped { because: because.clone() }.into();
    }
    let (resource, context) = match make(declaration, setting, &inputs.known) {
        Ok(Made::Resource(resource, context)) => (resource, context),
        Ok(Made::Unknown(aliases)) => return unknown(declaration, inputs, &aliases).into(),
        Err(error) => return Verdict::Failed { error }.into(),
    };
    let opened = match Opened::new(resource, context, declaration.timeout).await {
        Ok(opened) => opened,
        Err(error) => return cannot_look(inputs, error).into(),
    };
    let found = match opened.check().await {
        Ok(check) => judge(declaration, inputs, &opened, check),
        Err(error) => cannot_look(inputs, error).into(),
    };
    match opened.close().await {
        Ok(()) => found,
        Err(error) => Verdict::Failed { error }.into(),
    }
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

/// Judges an error of looking: what a dependency has not done yet may be its cause.
fn cannot_look(inputs: &Inputs, error: String) -> Verdict {
    if inputs.unsure.is_empty() {
        return Verdict::Failed { error };
    }
    let reason = format!("it cannot be looked at yet: {error}");
    Verdict::MayChange { because: inputs.unsure.clone(), reason }
}

fn judge(declaration: &Declaration, inputs: &Inputs, opened: &Opened, check: Check) -> Found {
    match check {
        Check::Unknown(aliases) => unknown(declaration, inputs, &aliases).into(),
        Check::RunOnly(state) => {
            Found { state: SeenState::Known(state.into()), ..Verdict::RunOnly.into() }
        }
        Check::Valid(state) => {
            let (verdict, refresh) = match refresh(declaration, inputs, opened, &[]) {
                Ok(refreshed) => refreshed,
                Err(error) => return Verdict::Failed { error }.into(),
            };
            // A refresh may change the state.
            let is_known = refresh.is_none() && verdict.is_none();
            let state = if is_known { SeenState::Known(state.into()) } else { SeenState::Later };
            Found { refresh, state, ..verdict.unwrap_or(Verdict::Unchanged).into() }
        }
        Check::Stale(stale) => judge_stale(declaration, inputs, opened, stale),
    }
}

fn judge_stale(declaration: &Declaration, inputs: &Inputs, opened: &Opened, stale: Stale) -> Found {
    let actions: Vec<_> = stale.actions.iter().map(|action| action.description().clone()).collect();
    if declaration.readonly {
        let state = stale.current.map_or(SeenState::Never, |state| SeenState::Known(state.into()));
        return Found { state, ..Verdict::Unchanged.into() };
    }
    if declaration.noop {
        let shutdown = stale.shutdown.as_ref().map(|action| action.description().clone());
        let change = Change { differences: stale.differences, shutdown, actions };
        let state = stale.current.map_or(SeenState::Never, |state| SeenState::Known(state.into()));
        return Found { state, ..Verdict::Noop(change).into() };
    }
    let (_, refresh) = match refresh(declaration, inputs, opened, &actions) {
        Ok(refreshed) => refreshed,
        Err(error) => return Verdict::Failed { error }.into(),
    };
    let shutdown = stale.shutdown.as_ref().map(|action| action.description().clone());
    let change = Change { differences: stale.differences, shutdown, actions };
    Found { refresh, shutdown: stale.shutdown, ..Verdict::Changes(change).into() }
}

/// Returns what a notification would bring about: that it may change, or a refresh.
fn refresh(
    declaration: &Declaration,
    inputs: &Inputs,
    opened: &Opened,
    done: &[Description],
) -> Result<(Option<Verdict>, Option<Refresh>), String> {
    let is_notified = !inputs.notified_by.is_empty() || !inputs.perhaps_by.is_empty();
    if declaration.noop || !is_notified {
        return Ok((None, None));
    }
    let Some(action) = opened.refresh(done)? else { return Ok((None, None)) };
    if inputs.notified_by.is_empty() {
        let reason = "a change notifies it".to_owned();
        let because = inputs.perhaps_by.clone();
        return Ok((Some(Verdict::MayChange { because, reason }), None));
    }
    let action = action.description().clone();
    Ok((None, Some(Refresh { by: inputs.notified_by.clone(), action })))
}
