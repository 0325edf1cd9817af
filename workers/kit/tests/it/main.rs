//! The workers through their public API, on real files, processes and signals.

mod alone;
mod asking;
mod catacomb;
mod config_file;
mod conformance;
mod events;
mod fifo;
mod file_watch;
mod files;
mod fortress;
mod gone;
mod heartbeat;
mod holding;
mod locks;
mod losing;
mod owning;
mod periodic;
mod process;
mod runner;
mod running;
mod schedules;
mod service;
mod signal;
mod threads;
mod trace;
mod watching;
