//! Resources that check, plan, apply and watch, and the manifest that declares them.
mod declaration;
mod manifest;

pub use declaration::{
    Config, Declaration, Dependency, DependencyState, OnChange, Place, Render, RenderError,
    Rendered, Scope, States,
};
pub use manifest::{Graph, GraphError, Manifest, ManifestError, Overrides, Problem};
