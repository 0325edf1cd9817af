//! Apply: make every resource as declared, once.

use std::num::NonZeroUsize;
use std::sync::Arc;

use crankcase_engine::Stop;

use crate::declare::declaration::Declaration;
use crate::declare::order::{Order, OrderError};
use crate::kind::kinds::Kinds;
use crate::modes::pass::Pass;
use crate::modes::pass::visit::PassVisit;
use crate::modes::plan::PARALLEL;
use crate::report::account::Account;
use crate::report::progress::Progress;
use crate::state::facilities::Facilities;
use crate::visit::approval::Approval;
use crate::visit::gatekeeper::Gatekeeper;
use crate::visit::prepared::Setting;

mod passed;
mod shutdown;

pub use passed::Passed;

/// How to apply.
#[derive(Debug, Clone)]
pub struct ApplyOptions {
    /// How many resources are changed at a time; 16 by default.
    pub parallel: NonZeroUsize,
    /// Whether no action starts any more after the first failure; off by default.
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
/// Shutdown-first actions run before all others, dependents first; one that is known only later runs
/// before the other actions of its own resource. Then each resource, after those that it uses, is
/// checked, its actions are run one after another, and it is checked again. A failure stops what
/// depends on the resource; the rest goes on.
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
    let gatekeeper = Gatekeeper::new(stop).fail_fast(options.fail_fast);
    let gatekeeper = Arc::new(gatekeeper.approved(options.approval.clone()));
    let parallel = options.parallel;
    let pass = Pass { order, declarations, setting, gatekeeper, foresight: None, parallel };
    options.progress.begin(declarations.len());
    let priors = shutdown::shut_down(&pass, &options.progress).await;
    let visit = |mut pass_visit: PassVisit| {
        pass_visit.prior = priors.get(&pass_visit.node).cloned();
        let may_pass = pass_visit.inputs.is_settled() && pass_visit.prior.is_none();
        let passed = options.passed.as_ref().filter(|_| may_pass);
        let passed = passed.and_then(|passed| passed.get(&pass_visit.declaration));
        let name = pass_visit.declaration.name.clone();
        options.progress.clone().count(name, async move {
            match passed {
                Some(visit) => visit,
                None => pass_visit.run().await,
            }
        })
    };
    let visits = pass.run(visit).await;
    let (visits, others) = match &options.passed {
        Some(passed) => {
            let visits = passed.note(declarations, kinds, visits);
            (visits, passed.done_to_others(declarations))
        }
        None => (visits, Vec::new()),
    };
    let mut accounted: Vec<_> = visits.into_iter().map(|visit| Some(visit.accounted())).collect();
    let resources = order.nodes().iter().filter_map(|node| accounted[*node].take());
    Account { resources: resources.chain(others).collect(), released: Vec::new() }
}
