//! Tests of the public API.
mod apply;
mod deadlines;
mod notify;
mod order;
mod probe;
mod support;
