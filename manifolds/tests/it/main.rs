//! Manifolds with real files, processes, signals and sockets.

mod command;
mod config_file;
mod conflict;
mod ending;
mod heartbeat;
mod periodic;
mod process;
mod site;
mod source;
mod spinning;
mod watching;
