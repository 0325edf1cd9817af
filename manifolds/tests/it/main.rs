//! Manifolds with real files, processes, signals and sockets.

mod conflict;
mod ending;
mod housing;
mod owners;
mod process;
mod simulated;
mod site;
mod source;
mod spinning;
