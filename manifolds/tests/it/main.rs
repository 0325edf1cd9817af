//! Manifolds with real files, processes, signals and sockets.

mod command;
mod config_file;
mod conflict;
mod ending;
mod heartbeat;
mod logs;
mod periodic;
mod process;
mod service;
mod site;
mod source;
mod spinning;
mod watching;
