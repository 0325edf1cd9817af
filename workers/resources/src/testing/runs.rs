//! What a resource does, from what it is to what it should be.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crankcase_engine::Stop;
use serde_json::json;

use crate::base::caught::caught_async;
use crate::base::error::BoxError;
use crate::declare::action::Action;
use crate::declare::claim::{PATH, Role};
use crate::declare::declaration::Declaration;
use crate::declare::known::{Claimed, KnownConfig};
use crate::declare::literal::Literal;
use crate::kind::context::Context;
use crate::kind::contract::Unit;
use crate::kind::kinds::Kinds;
use crate::modes::apply::{ApplyOptions, apply};
use crate::modes::plan::{PlanOptions, plan};
use crate::report::account::{Account, Outcome};
use crate::report::found::{Difference, Found, Stale, otherwise};
use crate::report::planned::{Plan, PlannedResource, Verdict};
use crate::testing::conformance::{NAME, Trial, listed, paths, run};
use crate::testing::world::Snapshot;

/// How the world is before the first action, and after each.
pub(super) type Steps = Vec<Snapshot>;

pub(super) fn check(trial: &mut Trial<'_>) -> io::Result<Steps> {
    let declarations = trial.declarations();
    leaves_alone(trial, &declarations)?;
    let (before, after) = converges(trial, &declarations)?;
    sees_drift(trial, &declarations, &after)?;
    // A resource that is made of parts does nothing itself, and its parts have samples of their own.
    if declarations.len() > 1 {
        return Ok(Vec::new());
    }
    is_put_back(trial, &before, &after)?;
    let strange = unclaimed(trial, &before, &after);
    trial.require(strange.is_empty(), || format!("it changes what it does not claim: {strange:?}"));
    let steps = step_by_step(trial)?;
    let other = steps.last().map(|last| paths(last, &after)).unwrap_or_default();
    trial.require(other.is_empty(), || {
        format!("its actions and an apply leave different files, or other ones each time: {other}")
    });
    Ok(steps)
}

/// Does the actions one by one, as an apply would that was saved in between.
fn step_by_step(trial: &mut Trial<'_>) -> io::Result<Steps> {
    let mut steps = vec![trial.begin()?];
    let walked = match trial.unit() {
        Ok((unit, context, _stopper)) => {
            let walk = walk(trial, &unit, &context, &mut steps);
            run(caught_async(walk)).map(|walked| walked.map_err(|err| err.to_string()).flatten())
        }
        Err(error) => Err(error),
    };
    trial.take("step by step", walked.flatten());
    Ok(steps)
}

async fn walk(
    trial: &Trial<'_>,
    unit: &Arc<dyn Unit>,
    context: &Context,
    steps: &mut Steps,
) -> Result<(), String> {
    unit.open(context).await.map_err(|err| format!("opening it: {err}"))?;
    let found = look_twice(trial, unit, context).await?;
    is_as_before(trial, &steps[0], "a check")?;
    let mut foreseen = None;
    if let Found::Stale(amiss) = found {
        if trial.kind.is_supervised() {
            return Err("a check of what is supervised wants something done".to_owned());
        }
        let stops_first = trial.kind.stops_first() || claimed(trial).stops_first;
        if amiss.shutdown.is_some() && !stops_first {
            return Err("a shutdown-first action comes of a kind that has none".to_owned());
        }
        for action in amiss.shutdown.iter().chain(&amiss.actions) {
            act(trial, unit, context, action).await?;
            steps.push(trial.world.look().map_err(|err| err.to_string())?);
        }
        foreseen = amiss.after;
    }
    match look_twice(trial, unit, context).await? {
        Found::Valid(state) => {
            let map = state.as_object().ok_or("the state is not a map")?;
            let taken = trial.kind.states().accept(map);
            taken.map_err(|wrong| format!("the table of states refuses the state: {wrong}"))?;
            let foreseen = foreseen.as_deref().and_then(|foreseen| otherwise(foreseen, &state));
            let foreseen = foreseen.filter(|(name, ..)| !trial.sample.is_volatile(name));
            if let Some((name, was, is)) = foreseen {
                return Err(format!("{name} was foreseen to be {was}, and is {is}"));
            }
        }
        Found::Unknown(after) => {
            return Err(format!("after its actions it is not known because of {after:?}"));
        }
        Found::Stale(Stale { differences, .. }) => {
            let differences = differences.iter().map(ToString::to_string);
            let differences = differences.collect::<Vec<_>>().join(", ");
            return Err(format!("after its actions it is not as declared: {differences}"));
        }
    }
    let last = trial.world.look().map_err(|err| err.to_string())?;
    let strange = Action::new("there_is_no_such_action");
    if unit.act(&strange, context).await.is_ok() {
        return Err("it does an action that it does not have".to_owned());
    }
    is_as_before(trial, &last, "an action that it does not have")?;
    if let Some(action) = unit.refresh(&[], context) {
        act(trial, unit, context, &action).await?;
        let found = look_twice(trial, unit, context).await?;
        if !matches!(found, Found::Valid(_)) {
            return Err(format!("after a refresh it is not as declared: {}", whole(&found)));
        }
    }
    unit.close(context).await;
    Ok(())
}

async fn look_twice(
    trial: &Trial<'_>,
    unit: &Arc<dyn Unit>,
    context: &Context,
) -> Result<Found, String> {
    let look = async || unit.check(context).await.map_err(|err| format!("looking at it: {err}"));
    let first = trial.sample.lasting(look().await?);
    let second = trial.sample.lasting(look().await?);
    let (one, other) = (whole(&first), whole(&second));
    if one == other { Ok(first) } else { Err(format!("two checks differ: {one}, then {other}")) }
}

/// Returns what a look has found, with all values: a sample has no real secrets.
fn whole(found: &Found) -> String {
    match found {
        Found::Valid(state) => format!("valid, with the state {state}"),
        Found::Stale(Stale { current, differences, actions, shutdown, after, .. }) => {
            let after = after.as_deref();
            format!("stale: {}", json!([current, differences, actions, shutdown, after]))
        }
        Found::Unknown(aliases) => format!("unknown because of {aliases:?}"),
    }
}

/// Runs an action as it is after it was written and read.
async fn act(
    trial: &Trial<'_>,
    unit: &Arc<dyn Unit>,
    context: &Context,
    action: &Action,
) -> Result<(), String> {
    let read = serde_json::to_value(action).and_then(serde_json::from_value::<Action>);
    let read = read.map_err(|err| format!("{action} does not survive JSON: {err}"))?;
    if read != *action {
        return Err(format!("{action} does not survive JSON: it is {read} then"));
    }
    let types = trial.kind.actions();
    if !types.is_empty() && types.iter().all(|ty| ty.name != action.name) {
        return Err(format!("{action} is not in the list of actions"));
    }
    unit.act(&read, context).await.map_err(|err| format!("{action}: {err:?}"))
}

fn is_as_before(trial: &Trial<'_>, before: &Snapshot, what: &str) -> Result<(), String> {
    let after = trial.world.look().map_err(|err| err.to_string())?;
    if after == *before {
        return Ok(());
    }
    Err(format!("{what} changes {}", paths(before, &after)))
}

/// Checks that neither a plan nor an apply of what is to be left alone changes anything.
fn leaves_alone(trial: &mut Trial<'_>, declarations: &[Declaration]) -> io::Result<()> {
    let before = trial.begin()?;
    let plans = (planned(trial, declarations), planned(trial, declarations));
    if let (Some(mut one), Some(mut other)) = plans {
        for planned in one.resources.iter_mut().chain(&mut other.resources) {
            if let Verdict::Changes(change) = &mut planned.verdict {
                let is_lasting =
                    |differs: &Difference| !trial.sample.is_volatile(&differs.attribute);
                change.differences.retain(is_lasting);
            }
        }
        trial.require(one == other, || format!("two plans differ: {one}, then {other}"));
    }
    let left = is_as_before(trial, &before, "a plan");
    trial.take("in a plan", left);
    let noop = |declaration: &Declaration| {
        let mut noop = declaration.clone();
        noop.noop = true;
        noop
    };
    // What depends on what is left alone, and is not there, may be skipped.
    let account = apply_all(trial.kinds, &declarations.iter().map(noop).collect::<Vec<_>>());
    trial.take("as a noop", account);
    let left = is_as_before(trial, &before, "an apply that is to leave it alone");
    trial.take("as a noop", left);
    Ok(())
}

/// Checks that what is planned is done, and that the resource is then as declared. Returns the
/// world before and after.
fn converges(
    trial: &mut Trial<'_>,
    declarations: &[Declaration],
) -> io::Result<(Snapshot, Snapshot)> {
    let before = trial.begin()?;
    agrees(trial, declarations);
    let after = trial.world.look()?;
    if trial.sample.is_lasting {
        let plan = planned(trial, declarations).filter(|plan| plan.changes() > 0);
        let shown = plan.as_ref().map(ToString::to_string).unwrap_or_default();
        trial.require(plan.is_none(), || format!("after apply a plan still says: {shown}"));
        agrees(trial, declarations);
        let left = is_as_before(trial, &after, "a second apply");
        trial.take("applied again", left);
    }
    Ok((before, after))
}

/// Returns what the config claims.
fn claimed(trial: &Trial<'_>) -> Claimed {
    let unknown = Default::default();
    trial.kind.judge(&KnownConfig { config: &trial.config, unknown: &unknown }).claimed
}

/// Returns what has changed that is neither claimed nor in something claimed.
fn unclaimed(trial: &Trial<'_>, before: &Snapshot, after: &Snapshot) -> Vec<PathBuf> {
    let claimed = claimed(trial);
    if claimed.may_make_any {
        return Vec::new();
    }
    let kept = claimed.claims.iter().filter(|claim| claim.space == PATH);
    let kept: Vec<_> = kept.filter(|claim| !matches!(claim.role, Role::Needs { .. })).collect();
    let differing = after.differing(before).into_iter();
    let strange = differing.filter(|path| !kept.iter().any(|claim| path.starts_with(&claim.name)));
    strange.map(Path::to_owned).collect()
}

/// Checks that a drift is seen and repaired.
fn sees_drift(
    trial: &mut Trial<'_>,
    declarations: &[Declaration],
    last: &Snapshot,
) -> io::Result<()> {
    let sample = trial.sample;
    for (name, drift) in &sample.drifts {
        trial.begin()?;
        applied(trial, declarations);
        drift(trial.world.folder())?;
        let after = trial.world.look()?;
        trial.require(after != *last, || format!("the drift \"{name}\" changes nothing"));
        let planned = planned(trial, declarations).filter(|plan| plan.changes() > 0);
        trial.require(planned.is_some(), || format!("the drift \"{name}\" is not seen"));
        is_watched(trial, name, &after.differing(last));
        agrees(trial, declarations);
        let mended = trial.world.look()?;
        let left = paths(last, &mended);
        trial.require(mended == *last, || format!("the drift \"{name}\" is not mended: {left}"));
    }
    Ok(())
}

/// Checks that a reversal declares what was there before.
fn is_put_back(trial: &mut Trial<'_>, before: &Snapshot, after: &Snapshot) -> io::Result<()> {
    if !trial.kind.can_reverse() {
        return Ok(());
    }
    trial.begin()?;
    let asked = ask(trial, async |unit, context| unit.reversal(context).await);
    let Some(config) = trial.take("asked how to put it back", asked) else { return Ok(()) };
    trial.require(config.is_some(), || "it does not say how it is put back".to_owned());
    let Some(config) = config else { return Ok(()) };
    let left = is_as_before(trial, before, "the question how to put it back");
    trial.take("asked how to put it back", left);
    let there = trial.declarations();
    applied(trial, &there);
    let back = Literal::new(config).declare(trial.world.folder(), NAME, &trial.sample.kind);
    let back = [back];
    agrees(trial, &back);
    let world = trial.world.look()?;
    let left = paths(before, &world);
    trial.require(world == *before, || format!("it is not put back as it was: {left}"));
    agrees(trial, &there);
    let world = trial.world.look()?;
    let other = paths(after, &world);
    trial.require(world == *after, || {
        format!("applied again after it was put back, it leaves different files: {other}")
    });
    Ok(())
}

/// Asks the resource something between its open and its close.
fn ask<T>(
    trial: &Trial<'_>,
    question: impl AsyncFnOnce(&dyn Unit, &Context) -> Result<T, BoxError>,
) -> Result<T, String> {
    let (unit, context, _stopper) = trial.unit()?;
    let asked = run(async {
        unit.open(&context).await?;
        let answer = question(&*unit, &context).await;
        unit.close(&context).await;
        answer
    });
    asked?.map_err(|err| err.to_string())
}

/// Checks that one of the paths that a drift has changed is watched, if only paths are watched.
fn is_watched(trial: &mut Trial<'_>, drift: &str, changed: &[&Path]) {
    let watch = ask(trial, async |unit, context| unit.watch(context).await);
    let Some(watch) = trial.take("watching it", watch) else { return };
    let is_more = watch.every.is_some()
        || !watch.instants.is_empty()
        || !watch.signals.is_empty()
        || !watch.facts.is_empty();
    let paths: Vec<_> = watch.paths.iter().chain(&watch.reads).collect();
    if paths.is_empty() || is_more {
        return;
    }
    let is_near = |path: &Path| {
        paths.iter().any(|watched| path.starts_with(watched) || watched.starts_with(path))
    };
    let is_watched = changed.iter().any(|path| is_near(path));
    trial.require(is_watched, || format!("what the drift \"{drift}\" changes is not watched"));
}

/// Plans, applies, and compares the two.
fn agrees(trial: &mut Trial<'_>, declarations: &[Declaration]) {
    let planned = planned(trial, declarations);
    let account = applied(trial, declarations);
    let (Some(plan), Some(account)) = (planned, account) else { return };
    for planned in &plan.resources {
        let differing = disagreement(planned, &account);
        trial.require(differing.is_none(), || differing.unwrap_or_default());
    }
}

fn planned(trial: &mut Trial<'_>, declarations: &[Declaration]) -> Option<Plan> {
    let plan = plan_all(trial.kinds, declarations);
    let plan = trial.take("a plan", plan)?;
    trial.require_no_secret("a plan", &format!("{plan} {plan:?}"));
    Some(plan)
}

fn applied(trial: &mut Trial<'_>, declarations: &[Declaration]) -> Option<Account> {
    let account = apply_all(trial.kinds, declarations);
    let account = trial.take("apply", account)?;
    trial.require_no_secret("an account", &format!("{account} {account:?}"));
    let is_good = account.failures() == 0 && account.halted() == 0;
    trial.require(is_good, || format!("apply fails: {account}"));
    Some(account)
}

pub(super) fn plan_all(kinds: &Kinds, declarations: &[Declaration]) -> Result<Plan, String> {
    let options = PlanOptions::default();
    run(plan(declarations, kinds, &options))?.map_err(|err| err.to_string())
}

pub(super) fn apply_all(kinds: &Kinds, declarations: &[Declaration]) -> Result<Account, String> {
    let (_stopper, stop) = Stop::pair();
    let options = ApplyOptions::default();
    run(apply(declarations, kinds, &options, stop))?.map_err(|err| err.to_string())
}

/// Returns how an account is not as it was planned.
pub(super) fn disagreement(planned: &PlannedResource, account: &Account) -> Option<String> {
    let Some(accounted) = account.get(&planned.name) else {
        return Some(format!("there is no account of {}", planned.name));
    };
    let wanted = match &planned.verdict {
        Verdict::MayChange { .. } => return None,
        Verdict::Changes(change) => {
            change.shutdown.iter().chain(&change.actions).cloned().collect()
        }
        Verdict::RunOnly if accounted.outcome != Outcome::RunOnly => {
            return Some(format!("{} is for run only, and apply said: {accounted}", planned.name));
        }
        _ => Vec::new(),
    };
    let refresh = planned.refresh.iter().map(|refresh| refresh.action.clone());
    let wanted: Vec<_> = wanted.into_iter().chain(refresh).collect();
    let done: Vec<_> = accounted.done.iter().map(|done| done.action.clone()).collect();
    (wanted != done).then(|| {
        let (wanted, done) = (listed(&wanted), listed(&done));
        format!("planned for {} was \"{wanted}\", and done was \"{done}\"", planned.name)
    })
}
