//! What can be seen of an engine from outside: events, reports and the graph, as plain data.

pub(crate) mod event;
pub(crate) mod graph;
pub(crate) mod log;
pub(crate) mod near;
pub(crate) mod report;
pub(crate) mod why;
