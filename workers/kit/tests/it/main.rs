//! The workers through their public API, on real files, processes and signals.

mod alone;
mod catacomb;
mod conformance;
mod events;
mod fifo;
mod file_watch;
mod fortress;
mod holding;
mod process;
mod runner;
mod running;
mod signal;
mod threads;
mod watching;
