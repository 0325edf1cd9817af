//! Tests of the public API.
mod apply;
mod claims;
mod notify;
mod order;
mod probe;
mod support;
