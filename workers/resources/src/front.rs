//! For those who make declarations, such as a manifest: references, rendering, order, conflicts,
//! and kinds that are made when they are named.

pub use crate::base::naming::{item_name, resource_name, worker_name};
pub use crate::base::text::circle;
pub use crate::declare::automatic::{Conflict, conflicts, connect};
pub use crate::declare::declaration::{
    Automatic, DeclarationFields, Dependency, DependencyState, Inputs, Place, REPAIRS, Render,
    RenderError, Rendered, RenderedText, Scope, UNUSABLE, Wanted, is_fact_alias,
};
pub use crate::declare::file_conflicts::{FileConflict, file_conflicts};
pub use crate::declare::order::{Edges, Order, OrderError};
pub use crate::declare::surroundings::Surroundings;
pub use crate::declare::tuning::{PartialBackoff, Tuning, Tunings};
pub use crate::kind::kind_source::{
    KindRequest, KindSource, MadeKinds, Plug, RequestError, WantedKind,
};
pub use crate::kind::kinds::UnknownKindError;
pub use crate::kind::secrets::add_secret;
pub use crate::modes::parts::{Declared, DeclaredPart, is_part_alias};
pub use crate::modes::site::{SelectionError, UnknownResourceError};
pub use crate::visit::claims::already_kept;
pub use crankcase_workers::Secrets;
