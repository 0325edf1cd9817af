//! Behaviour through the public API.

mod bad_manifests;
mod bounds;
mod mutations;
mod order;
mod rendering;
mod site;
