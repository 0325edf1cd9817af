//! The workers through their public API, on real files, processes and signals.

mod alone;
mod conformance;
mod events;
mod fifo;
mod file_watch;
mod process;
mod running;
mod signal;
mod watching;
