//! Resources that check, plan, apply and watch.
//!
//! This is the core. What is declared comes from a front such as `crankcase-manifest`, which makes
//! [`Declaration`]s, and the [`Kind`]s come from other crates, such as `crankcase-kinds`: the core
//! knows no file format and no kind.

// The derives name the crate as its users do.
extern crate self as crankcase_resources;

mod account;
mod action;
mod apply;
mod approval;
mod asking;
mod automatic;
mod blocking;
mod caught;
mod claim;
mod claims;
mod context;
mod converge;
mod deadline;
mod declaration;
mod departed;
mod earlier_config;
mod error;
mod facilities;
mod file_conflicts;
mod foresight;
mod found;
mod graph;
mod halting;
mod inputs;
mod judged;
mod kind;
mod kind_source;
mod kinds;
mod known;
mod last_good;
mod listing;
mod literal;
mod log;
mod meta;
mod naming;
mod notifying;
mod observer;
mod opened;
mod order;
mod packed;
mod params;
mod part;
mod parts;
mod pass;
mod plan;
mod planned;
mod prepared;
mod progress;
mod reconcile;
mod released;
mod resource;
mod reversal;
mod rules;
mod ruling;
mod schedule;
mod seal;
mod secrets;
mod shape;
mod site;
pub mod state;
mod surroundings;
#[cfg(feature = "testing")]
pub mod testing;
mod text;
mod thing;
mod tuning;
mod typed;
mod visit;
mod watch;
mod world;

pub use account::{Account, Accounted, Done, Halt, Outcome};
#[doc(hidden)]
pub use action::unknown as unknown_action;
pub use action::{Action, ActionType, Actions, Unfinished};
pub use apply::{ApplyOptions, Passed, apply};
pub use approval::{Approval, AsPlanned, Wish};
pub use automatic::{Conflict, conflicts, connect};
pub use blocking::blocking;
pub use claim::{Claim, PATH, Role, path_name};
pub use claims::{Claims, already_kept};
pub use context::{Context, Notice, Used};
pub use crankcase_resources_derive::{Actions, Choice, Params};
pub use crankcase_workers::{Secrets, printable};
pub use declaration::{
    Automatic, Config, Declaration, DeclarationFields, Dependency, DependencyState, Inputs,
    OnChange, Place, REPAIRS, Render, RenderError, Rendered, RenderedText, Scope, UNUSABLE, Wanted,
    is_fact_alias,
};
pub use error::{AttributeError, BoxError, Wrong};
pub use facilities::{Facilities, Shared};
pub use file_conflicts::{FileConflict, file_conflicts};
pub use foresight::Foreseen;
pub use found::{Amiss, Difference, Found};
pub use graph::{Graph, GraphError, Node, NodeError};
pub use judged::Judged;
pub use kind::{GroupMember, Kind, Unit};
pub use kind_source::{Culprit, KindSource, MadeKinds, Plug, WantedKind, Wishes};
pub use kinds::{Kinds, UnknownKindError};
pub use known::{Claimed, FileRead, KnownConfig};
pub use literal::Literal;
pub use meta::Meta;
pub use naming::{item_name, resource_name, worker_name};
pub use observer::{AskedBy, Happened, LastEvent, Observer, What};
pub use order::{Edges, Order, OrderError};
#[doc(hidden)]
pub use params::absent;
pub use params::{
    AbsPath, Field, Half, Mode, Parameter, Params, Reader, Secret, Table, Type, Writer,
};
pub use part::Part;
pub use parts::{Declared, DeclaredPart, is_part_alias};
pub use plan::{PlanOptions, plan};
pub use planned::{Change, Plan, PlannedResource, Refresh, Verdict};
pub use progress::Progress;
pub use reconcile::{
    Activity, Board, CurrentDeclaration, FULL_LOOK, Links, Program, ProgramStatus, Reconcile,
    ResourceTally, Rest, State, Tallies, Tally, Watching, reconcile,
};
pub use released::Released;
pub use resource::{Check, Grouping, Member, Resource, Stale, StateOf, Supervised};
pub use rules::{Cause, Handler, Hands, Rule, RuleParameters, Trigger};
pub use ruling::{Happenings, RuleEvents, RuleTally, Rules};
pub use seal::{Grounds, Salt, Seal};
pub use secrets::add_secret;
#[doc(hidden)]
pub use serde_json::{Value, json};
pub use shape::Shape;
pub use site::{Leaving, Selection, SelectionError, Site, UnknownResourceError};
pub use surroundings::Surroundings;
pub use text::{circle, cut, cut_after, nearest, shown};
pub use tuning::{PartialBackoff, Tuning, Tunings};
pub use typed::{KindOf, kind};
pub use watch::Watch;
pub use world::{FactChanges, FactSchema, WatchedFact, World, WorldSnapshot};
