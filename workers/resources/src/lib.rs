//! Resources that check, plan, apply and watch, and the manifest that declares them.
mod declaration;
pub mod manifest;

pub use declaration::{
    Config, Declaration, Dependency, DependencyState, OnChange, Place, Render, RenderError,
    Rendered, Scope, States,
};
