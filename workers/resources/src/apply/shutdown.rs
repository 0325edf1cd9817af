//! The actions that come before all others, dependents first.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value;

use crate::account::Outcome;
use crate::action::Action;
use crate::apply::{ApplyOptions, targets};
use crate::approval::Wish;
use crate::converge::failed;
use crate::declaration::Declaration;
use crate::foresight::Foresight;
use crate::halting::{Halting, Steps};
use crate::make::Setting;
use crate::notifying::Promise;
use crate::opened::Opened;
use crate::order::Order;
use crate::pass::{graph, pass};
use crate::plan::visit::{Look, Purpose, Shutdown, visit};
use crate::planned::Change;
use crate::schedule::Id;
use crate::seal::Grounds;

/// What the shutdown-first pass did to one resource.
#[derive(Debug, Clone, Default)]
pub(crate) struct Prior {
    pub(crate) steps: Steps,
    /// Whether all that is to be done to the resource was approved.
    pub(crate) is_approved: bool,
    /// How the resource has ended already.
    pub(crate) outcome: Option<Outcome>,
}

/// Runs the shutdown-first actions of the configs that are known before the first action, one
/// after another and dependents first.
///
/// What a resource uses is not shut down if the resource could not be.
pub(crate) async fn shut_down(
    order: &Arc<Order>,
    declarations: &[Declaration],
    setting: &Setting,
    (options, halting): (&ApplyOptions, &Halting),
) -> BTreeMap<usize, Prior> {
    let mut priors = BTreeMap::new();
    let is_needed = declarations.iter().any(|declaration| {
        setting.kinds.get(&declaration.kind).is_ok_and(|kind| kind.stops_first())
    });
    if !is_needed {
        return priors;
    }
    let setting =
        &Setting { foresight: Some(Foresight::new(order, declarations)), ..setting.clone() };
    let look = |node: usize, looks: &[Option<Look>], _| {
        visit(order, declarations, node, looks, (setting.clone(), Purpose::ShutDown))
    };
    let graph = graph(order, declarations, &setting.kinds, Id);
    let mut looks = pass(graph, options.parallel, look, Look::ending).await;
    // Backwards and one at a time needs no schedule, whose visits have to own all that they use.
    let mut held_by: Vec<Option<String>> = vec![None; declarations.len()];
    for node in order.nodes().iter().rev() {
        let held = order.dependents(*node).iter().find_map(|after| held_by[*after].clone());
        let Some(shutdown) = looks[*node].shutdown.take() else {
            held_by[*node] = held;
            continue;
        };
        let Shutdown { action, opened, after } = shutdown;
        let change = looks[*node].change();
        let (name, mut prior) = (&declarations[*node].name, Prior::default());
        let ended = if let Some(because) = held {
            prior.steps.remaining.push(action);
            Err((because.clone(), Outcome::Skipped { because }))
        } else {
            let records = setting.facilities.records();
            let promise = Promise::new(records, name, targets(order, declarations, *node));
            let work = stop(&opened, (change, action, after), (halting, &promise), &mut prior);
            let ended = options.progress.at_work_on(name, work).await;
            ended.map_err(|outcome| (name.clone(), outcome))
        };
        let closed = opened.close().await.map_err(|error| (name.clone(), failed(error)));
        if let Err((by, outcome)) = ended.and(closed) {
            if matches!(outcome, Outcome::Failed { .. }) {
                halting.fail();
            }
            prior.outcome = Some(outcome);
            held_by[*node] = Some(by);
        }
        priors.insert(*node, prior);
    }
    priors
}

/// Does a shutdown-first action, if the change of its resource is approved.
async fn stop(
    opened: &Opened,
    (change, action, after): (Option<&Change>, Action, Option<Arc<Value>>),
    (halting, promise): (&Halting, &Promise<'_>),
    prior: &mut Prior,
) -> Result<(), Outcome> {
    let programs = halting.programs(opened).await;
    let (config, after) = (opened.config(), after.as_deref());
    let grounds = Grounds { config: &config, after, programs: &programs };
    if let Some(change) = change
        && let Err(refused) = halting.approve(opened.name(), Wish::Change(change, grounds)).await
    {
        prior.steps.remaining.push(action);
        return Err(refused);
    }
    prior.is_approved = true;
    halting.run(opened, vec![action], &mut prior.steps, promise).await
}
