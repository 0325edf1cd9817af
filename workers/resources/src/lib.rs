//! Resources that check, plan, apply and watch.
//!
//! This is the core. What is declared comes from a front such as `crankcase-manifest`, which makes
//! [`Declaration`]s, and the [`Kind`](dynamic::Kind)s come from other crates, such as
//! `crankcase-kinds`: the core knows no file format and no kind.

// The derives name the crate as its users do.
extern crate self as crankcase_resources;

mod base;
mod declare;
#[doc(hidden)]
pub mod derived;
pub mod dynamic;
pub mod front;
mod kind;
mod modes;
pub mod report;
pub mod rules;
pub mod run;
mod schedule;
pub mod state;
#[cfg(feature = "testing")]
pub mod testing;
mod visit;

pub use base::blocking::blocking;
pub use base::error::{AttributeError, BoxError, Wrong};
pub use crankcase_resources_derive::{Actions, Choice, Params};
pub use declare::action::{Action, Actions, Unfinished};
pub use declare::claim::{Claim, PATH, Role};
pub use declare::declaration::{Declaration, OnChange};
pub use declare::known::Claimed;
pub use declare::literal::Literal;
pub use declare::meta::Meta;
pub use declare::params::{AbsPath, Field, Mode, Params, Partial, Secret, Type};
pub use kind::context::{Context, Notice, Used};
pub use kind::kinds::Kinds;
pub use kind::resource::{Check, Grouping, Member, Resource, Stale, StateOf, Supervised};
pub use kind::typed::{KindOf, kind};
pub use kind::watch::Watch;
pub use modes::apply::ApplyOptions;
pub use modes::graph::{Graph, GraphError, Node, NodeError};
pub use modes::plan::PlanOptions;
pub use modes::site::{Selection, Site};
pub use report::account::{Account, Done, Halt, Outcome};
pub use report::found::Difference;
pub use report::observer::{Event, Observer};
pub use report::planned::{Plan, Verdict};
pub use report::progress::Progress;
pub use report::released::Released;
pub use report::tally::Tally;
pub use state::facilities::Facilities;
pub use visit::approval::{Approval, AsPlanned};
