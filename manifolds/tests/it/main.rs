//! Manifolds with real files, processes, signals and sockets.

mod conflict;
mod ending;
#[path = "../../../engine/tests/it/examples.rs"]
mod examples;
mod housing;
mod owners;
mod process;
mod simulated;
mod site;
mod source;
mod spinning;
