//! Pictures of dependency graphs and of the boot.

mod boot;
mod dot;
mod fold;
mod graph;
mod layout;
mod mermaid;
mod svg;
mod text;
mod wires;

pub use graph::{Edge, Look, Node, Picture, Stroke};
pub use text::{Line, Span};
