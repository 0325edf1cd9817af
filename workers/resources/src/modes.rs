//! Plan, apply and run, and the site that they begin with.

pub(crate) mod apply;
pub(crate) mod graph;
pub(crate) mod parts;
pub(crate) mod pass;
pub(crate) mod plan;
pub(crate) mod reconcile;
pub(crate) mod removed;
pub(crate) mod ruling;
pub(crate) mod site;
