//! The workers through their public API, on real files, processes and signals.

mod running;
mod signal;
