//! The workers through their public API, on real files, processes and signals.

mod events;
mod fifo;
mod process;
mod running;
mod signal;
