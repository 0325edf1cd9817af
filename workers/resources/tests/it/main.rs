//! Tests of the public API.
mod apply;
mod bad_manifests;
mod bounds;
mod exec;
mod file;
mod file_attacks;
mod file_faults;
mod kinds;
mod manifest_order;
mod mutations;
mod notify;
mod order;
mod plan;
mod probe;
mod rendering;
mod site;
mod support;
