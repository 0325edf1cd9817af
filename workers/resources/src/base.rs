//! Texts, panics, blocking work, names, deadlines and errors: what knows no resource.

pub(crate) mod blocking;
pub(crate) mod caught;
pub(crate) mod deadline;
pub(crate) mod error;
pub(crate) mod log;
pub(crate) mod naming;
pub(crate) mod packed;
pub(crate) mod shape;
pub(crate) mod text;
