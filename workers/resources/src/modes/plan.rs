//! Plan: what apply would do.

use std::num::NonZeroUsize;
use std::sync::Arc;

use crankcase_engine::{Stop, Stopper};

use crate::declare::declaration::Declaration;
use crate::declare::order::{Order, OrderError};
use crate::kind::foresight::Foresight;
use crate::kind::kinds::Kinds;
use crate::modes::pass::Pass;
use crate::modes::pass::visit::PassVisit;
use crate::report::planned::Plan;
use crate::report::progress::Progress;
use crate::report::seal::Salt;
use crate::state::facilities::Facilities;
use crate::visit::gatekeeper::Gatekeeper;
use crate::visit::prepared::Setting;

/// How many resources are looked at or changed at a time, unless an option says otherwise.
pub(crate) const PARALLEL: NonZeroUsize = NonZeroUsize::new(16).expect("16 is not zero");

/// How to plan.
#[derive(Debug, Clone)]
pub struct PlanOptions {
    /// How many resources are looked at at a time; 16 by default.
    pub parallel: NonZeroUsize,
    /// What is told how far it has come.
    pub progress: Progress,
    /// What resources are given; nothing that outlives the process by default.
    pub facilities: Facilities,
    /// What the plan is sealed with, so that it is bound to what it does not show as well; not by
    /// default.
    pub salt: Option<Salt>,
}

impl Default for PlanOptions {
    fn default() -> Self {
        Self {
            parallel: PARALLEL,
            progress: Progress::default(),
            facilities: Facilities::default(),
            salt: None,
        }
    }
}

/// Looks at every resource and says what apply would do; changes nothing.
///
/// Guards run. A check error stops only what depends on the resource; where a dependency changes
/// first, it may be the cause of the error, so that the resource *may change* instead.
///
/// # Errors
///
/// When the declarations cannot be put into an order. Nothing was looked at then.
///
/// # Cancel safety
///
/// Cancel safe: it changes nothing, and commands that guards run are killed when it is dropped.
pub async fn plan(
    declarations: &[Declaration],
    kinds: &Kinds,
    options: &PlanOptions,
) -> Result<Plan, OrderError> {
    let order = Arc::new(Order::new(declarations)?);
    Ok(plan_in_order(&order, declarations, kinds, options).await)
}

/// Plans declarations that are in an order.
pub(crate) async fn plan_in_order(
    order: &Arc<Order>,
    declarations: &[Declaration],
    kinds: &Kinds,
    options: &PlanOptions,
) -> Plan {
    let (stopper, stop) = Stop::pair();
    let _ending = EndingLooks(stopper);
    let gatekeeper = Arc::new(Gatekeeper::new(stop.clone()));
    let setting = Setting::new(kinds, stop, declarations, &options.facilities);
    let setting = Setting { salt: options.salt.clone(), ..setting };
    let foresight = Some(Foresight::new(order, declarations));
    let pass =
        Pass { order, declarations, setting, gatekeeper, foresight, parallel: options.parallel };
    options.progress.begin(declarations.len());
    let visit = |pass_visit: PassVisit| {
        options.progress.clone().count(pass_visit.declaration.name.clone(), pass_visit.run())
    };
    let visits = pass.run(visit).await;
    let planned = visits.into_iter().zip(declarations);
    let planned = planned.map(|(visit, declaration)| Some(visit.planned(declaration)));
    let mut planned: Vec<_> = planned.collect();
    let salt = options.salt.clone();
    Plan {
        salt,
        released: Vec::new(),
        resources: order.nodes().iter().filter_map(|node| planned[*node].take()).collect(),
    }
}

/// Tells the looks of a plan to end when it is dropped: what blocks a thread does not end with its
/// future.
struct EndingLooks(Stopper);

impl Drop for EndingLooks {
    fn drop(&mut self) {
        self.0.stop();
    }
}
