//! Tests of the public API.
mod apply;
mod exec;
mod file;
mod file_attacks;
mod file_faults;
mod kinds;
mod notify;
mod order;
mod plan;
mod probe;
mod support;
