//! Tests of the public API.
mod apply;
mod notify;
mod order;
mod probe;
mod support;
