//! What an apply does: every resource once, in order.

use std::num::NonZeroUsize;
use std::sync::Arc;

use crankcase_engine::Stop;

use crate::account::Account;
use crate::apply::passed::Applied;
use crate::apply::visit::Visit;
use crate::approval::Approval;
use crate::asking::Turn;
use crate::declaration::Declaration;
use crate::facilities::Facilities;
use crate::halting::Halting;
use crate::inputs::{Inputs, Seen};
use crate::kinds::Kinds;
use crate::make::Setting;
use crate::order::{Order, OrderError};
use crate::pass::{graph, pass};
use crate::plan::PARALLEL;
use crate::progress::Progress;
use crate::schedule::Id;

mod passed;
mod shutdown;
mod visit;

pub use passed::Passed;

/// How to apply.
#[derive(Debug, Clone)]
pub struct ApplyOptions {
    /// How many resources are changed at a time; 16 by default.
    pub parallel: NonZeroUsize,
    /// Whether the first failure keeps every action from starting that has not started; off by
    /// default.
    pub fail_fast: bool,
    /// What decides on each change before it is made, one after the other; none by default.
    pub approval: Vec<Arc<dyn Approval>>,
    /// What is told how far it has come.
    pub progress: Progress,
    /// What earlier applies of the same command have done; none by default.
    pub passed: Option<Passed>,
    /// What resources are given; nothing that outlives the process by default.
    pub facilities: Facilities,
}

impl Default for ApplyOptions {
    fn default() -> Self {
        Self {
            parallel: PARALLEL,
            fail_fast: false,
            approval: Vec::new(),
            progress: Progress::default(),
            passed: None,
            facilities: Facilities::default(),
        }
    }
}

/// Makes every resource as declared, once.
///
/// Shutdown-first actions run before all others, dependents first. Then each resource, after those
/// that it uses, is checked, its actions are run one after another, and it is checked again. A
/// failure stops what depends on the resource; the rest goes on.
///
/// When `stop` is told, no action starts any more, and those that run end early in good order. The
/// account is complete in any case.
///
/// # Errors
///
/// When the declarations cannot be put into an order. Nothing was done then.
///
/// # Cancel safety
///
/// Not cancel safe: dropped, it leaves no account. Commands that run are killed.
pub async fn apply(
    declarations: &[Declaration],
    kinds: &Kinds,
    options: &ApplyOptions,
    stop: Stop,
) -> Result<Account, OrderError> {
    let order = Arc::new(Order::new(declarations)?);
    Ok(apply_in_order(&order, declarations, kinds, (options, stop)).await)
}

/// Applies declarations that are in an order.
pub(crate) async fn apply_in_order(
    order: &Arc<Order>,
    declarations: &[Declaration],
    kinds: &Kinds,
    (options, stop): (&ApplyOptions, Stop),
) -> Account {
    let setting = Setting::new(kinds, stop.clone(), declarations, &options.facilities);
    let halting =
        Arc::new(Halting::new(stop, options.fail_fast).approved(options.approval.clone()));
    options.progress.begin(declarations.len());
    let priors = shutdown::shut_down(order, declarations, &setting, (options, &halting)).await;
    let (nothing, records) = (Seen::default(), options.facilities.records());
    let visit = |node: usize, applied: &[Option<Applied>], turn: Option<Turn>| {
        let inputs = Inputs::gather(order, declarations, (node, records), |node| {
            applied[node].as_ref().map_or(&nothing, |applied| &applied.seen)
        });
        let passed = options.passed.as_ref();
        let passed = passed.filter(|_| inputs.is_settled() && !priors.contains_key(&node));
        let visit = Visit {
            passed: passed.and_then(|passed| passed.get(&declarations[node])),
            declaration: declarations[node].clone(),
            setting: setting.clone(),
            inputs,
            targets: targets(order, declarations, node),
            halting: Arc::clone(&halting),
            prior: priors.get(&node).cloned().unwrap_or_default(),
            turn,
        };
        options.progress.clone().count(declarations[node].name.clone(), visit.run())
    };
    let graph = graph(order, declarations, kinds, Id);
    let applied = pass(graph, options.parallel, visit, Applied::ending).await;
    let (applied, others) = match &options.passed {
        Some(passed) => {
            let applied = passed.note(declarations, kinds, applied);
            (applied, passed.done_to_others(declarations))
        }
        None => (applied, Vec::new()),
    };
    let mut accounted: Vec<_> = applied.into_iter().map(|node| Some(node.accounted)).collect();
    let resources = order.nodes().iter().filter_map(|node| accounted[*node].take());
    Account { resources: resources.chain(others).collect(), released: Vec::new() }
}

/// Returns the names of those that a resource notifies, in this run or in a later one.
fn targets(order: &Order, declarations: &[Declaration], node: usize) -> Vec<Arc<str>> {
    let now = order.notified(node).iter().map(|target| &declarations[*target].name);
    now.chain(&declarations[node].notify_later).map(|name| name.as_str().into()).collect()
}
