//! Resources that check, plan, apply and watch, and the manifest that declares them.
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
mod plan;
mod progress;
mod reconcile;
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
pub use declaration::{
    Config, Declaration, Dependency, DependencyState, OnChange, Place, Render, RenderError,
    Rendered, Scope, States, Wanted,
};
pub use graph::{Graph, GraphError};
pub use kinds::process::PROCESS;
pub use kinds::{Kinds, UnknownKindError};
pub use known::{FileRead, Files, KnownConfig};
pub use manifest::{Manifest, ManifestError, Overrides, Problem};
pub use plan::{Change, Plan, PlanOptions, PlannedResource, Refresh, Verdict, plan};
pub use progress::Progress;
pub use reconcile::{
    Activity, FULL_LOOK, Links, Notices, Program, ProgramStatus, Reconcile, State, reconcile,
};
pub use resource::{BoxError, Check, CheckContext, Difference, Kind, Resource, Stale, Watch};
pub use site::{Site, UnknownResourceError};
pub use source::{SiteFiles, SiteSource};
