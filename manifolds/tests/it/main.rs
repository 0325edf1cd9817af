//! Manifolds with real files, processes, signals and sockets.

mod command;
mod config_file;
mod conflict;
mod ending;
#[path = "../../../engine/tests/it/examples.rs"]
mod examples;
mod facts;
mod heartbeat;
mod housing;
mod logs;
mod owners;
mod periodic;
mod process;
mod service;
mod settings;
mod simulated;
mod simulated_kit;
mod site;
mod source;
mod spinning;
mod state_lock;
mod watching;
