//! What a plan shows: every resource is looked at once, in order.

use std::num::NonZeroUsize;
use std::sync::Arc;

use crankcase_engine::{Stop, Stopper};
use serde::{Deserialize, Serialize};

use crate::action::Action;
use crate::declaration::Declaration;
use crate::facilities::Facilities;
use crate::foresight::Foresight;
use crate::found::Difference;
use crate::kinds::Kinds;
use crate::make::Setting;
use crate::order::{Order, OrderError};
use crate::pass::{graph, pass};
use crate::plan::visit::{Look, Purpose, visit};
use crate::progress::Progress;
use crate::released::Released;
use crate::schedule::Id;
use crate::seal::{Salt, Seal};

mod display;
pub(crate) mod visit;

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
    let setting = Setting::new(kinds, stop, declarations, &options.facilities);
    let foresight = Some(Foresight::new(order, declarations));
    let setting = Setting { foresight, salt: options.salt.clone(), ..setting };
    options.progress.begin(declarations.len());
    let look = |node: usize, looks: &[Option<Look>], _| {
        let look = visit(order, declarations, node, looks, (setting.clone(), Purpose::Plan));
        options.progress.clone().count(declarations[node].name.clone(), look)
    };
    let graph = graph(order, declarations, kinds, Id);
    let looks = pass(graph, options.parallel, look, Look::ending).await;
    let mut planned: Vec<_> = looks.into_iter().map(|look| Some(look.planned)).collect();
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

/// What apply would do.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[must_use]
pub struct Plan {
    /// What it is sealed with, if it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub salt: Option<Salt>,
    /// Every resource, after those that it uses; otherwise in the order of the manifest.
    pub resources: Vec<PlannedResource>,
    /// What would not be kept any more.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub released: Vec<Released>,
}

impl Plan {
    /// Returns how many resources would change or be refreshed.
    pub fn changes(&self) -> usize {
        self.count(PlannedResource::is_changing)
    }

    /// Returns how many resources may change, which shows only after others have.
    pub fn may_change(&self) -> usize {
        self.count(|planned| matches!(planned.verdict, Verdict::MayChange { .. }))
    }

    /// Returns how many resources could not be looked at, or were skipped because of one.
    pub fn failures(&self) -> usize {
        self.count(|planned| {
            matches!(planned.verdict, Verdict::Failed { .. } | Verdict::Skipped { .. })
        })
    }

    /// Returns how many resources are not as declared, and declared to be left alone.
    pub fn left_alone(&self) -> usize {
        self.count(|planned| matches!(planned.verdict, Verdict::Noop(_)))
    }

    /// Returns how many resources are not looked at, because only `run` supervises them.
    pub fn run_only(&self) -> usize {
        self.count(|planned| planned.verdict == Verdict::RunOnly)
    }

    /// Returns whether any resource would, or may, change.
    pub fn has_something_to_do(&self) -> bool {
        self.changes() + self.may_change() > 0
    }

    /// Returns the resource with this name.
    pub fn get(&self, name: &str) -> Option<&PlannedResource> {
        self.resources.iter().find(|planned| planned.name == name)
    }

    fn count(&self, is_counted: impl Fn(&PlannedResource) -> bool) -> usize {
        self.resources.iter().filter(|planned| is_counted(planned)).count()
    }
}

/// What apply would do to one resource.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct PlannedResource {
    /// The resource's name.
    pub name: String,
    /// Its type.
    #[serde(rename = "type")]
    pub kind: String,
    /// Whether it has left its manifest, and is to be put back as it was before.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_put_back: bool,
    /// Whether it would change, or may, and other resources may be declared after that.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub declares_others: bool,
    /// What the check found.
    #[serde(flatten)]
    pub verdict: Verdict,
    /// What would be done because of a notification.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refresh: Option<Refresh>,
    /// What it is bound to beside that, if the plan is sealed and the resource could be looked at.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seal: Option<Seal>,
}

impl PlannedResource {
    /// Returns whether the resource would change or be refreshed.
    pub fn is_changing(&self) -> bool {
        matches!(self.verdict, Verdict::Changes(_)) || self.refresh.is_some()
    }
}

/// What a check found.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "verdict", rename_all = "snake_case")]
#[non_exhaustive]
pub enum Verdict {
    /// It is as declared, or only read.
    Unchanged,
    /// It would change.
    Changes(Change),
    /// It is not as declared, and declared to be left alone.
    Noop(Change),
    /// It may change; that shows only after others have changed.
    MayChange {
        /// The resources that change first.
        because: Vec<String>,
        /// What depends on them.
        reason: String,
    },
    /// It is supervised by `run` only.
    RunOnly,
    /// It could not be looked at.
    Failed {
        /// Why.
        error: String,
    },
    /// It was not looked at.
    Skipped {
        /// The resource that failed.
        because: String,
    },
}

/// How a resource would change.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Change {
    /// What differs, per attribute.
    pub differences: Vec<Difference>,
    /// What would be done before the first action of any resource.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shutdown: Option<Action>,
    /// What would be done, in this order.
    pub actions: Vec<Action>,
}

/// What a notification would bring about.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Refresh {
    /// The changing resources that notify.
    pub by: Vec<String>,
    /// What would be done.
    pub action: Action,
}
