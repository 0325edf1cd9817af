//! Tests of the public API.
mod actions;
mod apply;
mod claims;
mod deadlines;
mod notify;
mod order;
mod params;
mod probe;
mod support;
