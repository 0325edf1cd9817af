//! Resources that check, plan, apply and watch, and the manifest that declares them.

// The derives name the crate as its users do.
extern crate self as crankcase_resources;

mod account;
mod action;
mod apply;
mod attributes;
mod blocking;
mod caught;
mod claims;
mod converge;
mod declaration;
mod graph;
mod kinds;
mod known;
mod look;
mod manifest;
mod params;
mod plan;
mod progress;
mod reconcile;
mod regular;
mod resource;
mod site;
mod source;
mod text;
mod walk;

pub use account::{Account, Accounted, Done, Halt, Outcome};
pub use action::{Action, ActionContext, Description, Unfinished};
pub use apply::{ApplyOptions, apply};
pub use attributes::{AttributeError, Attributes, Parameter};
pub use claims::Claims;
pub use crankcase_resources_derive::{Actions, Choice, Params};
pub use declaration::{
    Config, Declaration, Dependency, DependencyState, OnChange, Place, Render, RenderError,
    Rendered, Scope, States,
};
pub use graph::{Graph, GraphError};
pub use kinds::process::PROCESS;
pub use kinds::{Kinds, UnknownKindError};
pub use known::{FileRead, Files, KnownConfig};
pub use manifest::{Manifest, ManifestError, Overrides, Problem};
#[doc(hidden)]
pub use params::absent;
pub use params::{
    AbsPath, Actions, Field, Half, Mode, Parameter as TypedParameter, Params, Reader, Secret,
    Table, Type, Writer, Wrong,
};
pub use plan::{Change, Plan, PlanOptions, PlannedResource, Refresh, Verdict, plan};
pub use progress::Progress;
pub use reconcile::{
    Activity, Board, FULL_LOOK, Links, Program, ProgramStatus, Reconcile, State, reconcile,
};
pub use resource::{BoxError, Check, CheckContext, Difference, Kind, Resource, Stale, Watch};
#[doc(hidden)]
pub use serde_json::{Value, json};
pub use site::{Site, UnknownResourceError};
pub use source::{SiteFiles, SiteSource};
