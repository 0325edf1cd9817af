//! Why a resource is looked at, and why it was changed.

use std::collections::BTreeMap;
use std::sync::Arc;

use crankcase_engine::{Exit, Origin};

use crate::declaration::Declaration;
use crate::observer::What;
use crate::reconcile::board::Told;
use crate::reconcile::state::State;

/// Why a worker goes on.
pub(super) enum Cause {
    Stop,
    /// It is declared otherwise.
    Declared,
    /// A resource that it depends on, or that notifies it, was looked at.
    News,
    /// The resource itself may have changed, as its watches say.
    Seen,
    /// It has waited for long enough.
    Time,
    Ended(Exit),
}

impl Cause {
    /// Says why the resource is looked at.
    pub(super) fn why(&self) -> &'static str {
        match self {
            Self::Declared => "its declaration has changed",
            Self::News => "a resource before it was looked at",
            Self::Seen => "its watch has told of a change",
            Self::Time => "it was time to look",
            Self::Stop | Self::Ended(_) => "its worker ends",
        }
    }
}

/// What a resource is declared by.
pub(super) struct Basis {
    pub(super) declaration: Arc<Declaration>,
    pub(super) states: BTreeMap<String, State>,
}

impl PartialEq for Basis {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.declaration, &other.declaration) && self.states == other.states
    }
}

/// Says how a resource was changed, and at whose wish.
pub(super) fn noted(differing: &[String], is_drift: bool, told: Option<&Told>) -> (What, Origin) {
    let differing = differing.join(", ");
    match told {
        Some(told) if differing.is_empty() => (What::Refreshed, told.origin()),
        _ if is_drift => {
            (What::Repaired, by_agent(&format!("not as declared any more: {differing}")))
        }
        _ => (What::Changed, by_agent(&format!("not as declared: {differing}"))),
    }
}

/// What the agent does of its own.
pub(super) fn by_agent(why: &str) -> Origin {
    Origin::new("agent", why)
}
