//! The workers through their public API, on real files, processes and signals.

mod alone;
mod config_file;
mod events;
mod fifo;
mod file_watch;
mod heartbeat;
mod periodic;
mod process;
mod running;
mod service;
mod signal;
mod watching;
