//! Tests of the public API.
mod actions;
mod apply;
mod claims;
mod conformance;
mod context;
mod deadlines;
mod graph;
mod notify;
mod order;
mod owed;
mod params;
mod parts;
mod probe;
mod schema;
mod secrets;
mod support;
mod together;
