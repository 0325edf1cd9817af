use std::collections::BTreeMap;

use crate::account::Outcome;
use crate::apply::ApplyOptions;
use crate::declaration::Declaration;
use crate::graph::Graph;
use crate::halting::{Halting, Steps};
use crate::look::Setting;
use crate::plan::visit::visit;
use crate::walk::walk;

/// What the shutdown-first pass did to one resource.
#[derive(Debug, Clone, Default)]
pub(crate) struct Prior {
    pub(crate) steps: Steps,
    /// How the resource has ended already.
    pub(crate) outcome: Option<Outcome>,
}

/// Runs the shutdown-first actions of the configs that are known before the first action, one
/// after another and dependents first.
///
/// What a resource uses is not shut down if the resource could not be.
pub(crate) async fn shut_down(
    graph: &Graph,
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
    let mut looks = walk(graph, options.parallel, |node, looks| {
        visit(graph, declarations, node, looks, setting.clone())
    })
    .await;
    let mut held_by: Vec<Option<String>> = vec![None; declarations.len()];
    for node in graph.order().iter().rev() {
        let held = graph.dependents(*node).iter().find_map(|after| held_by[*after].clone());
        let Some(action) = looks[*node].shutdown.take() else {
            held_by[*node] = held;
            continue;
        };
        let (declaration, mut prior) = (&declarations[*node], Prior::default());
        let (name, timeout) = (&declaration.name, declaration.timeout);
        let steps = &mut prior.steps;
        if let Some(because) = held {
            steps.remaining.push(action.description().clone());
            prior.outcome = Some(Outcome::Skipped { because: because.clone() });
            held_by[*node] = Some(because);
        } else if let Err(outcome) =
            options.progress.at_work_on(name, halting.run(vec![action], timeout, steps)).await
        {
            if matches!(outcome, Outcome::Failed { .. }) {
                halting.fail();
            }
            prior.outcome = Some(outcome);
            held_by[*node] = Some(name.clone());
        }
        priors.insert(*node, prior);
    }
    priors
}
