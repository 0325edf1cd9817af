//! For those who run the modes: plan, apply, and the worker that keeps a resource.

pub use crate::modes::apply::{Passed, apply};
pub use crate::modes::plan::plan;
pub use crate::modes::reconcile::{
    CurrentDeclaration, FULL_LOOK, Links, Program, ProgramStatus, QUIET, Reconcile, Tallies,
    reconcile,
};
pub use crate::modes::ruling::{Happenings, RuleEvents, RuleTally, Rules};
pub use crate::modes::site::Leaving;
pub use crate::schedule::shared::{Activity, Rest, Schedule};
pub use crate::schedule::state::State;
pub use crate::state::world::{FactChanges, WatchedFact, World, WorldSnapshot};
pub use crate::visit::approval::Proposal;
pub use crate::visit::claims::Claims;
pub use crate::visit::watching::Watching;
