//! Manifolds with real files, processes, signals and sockets.

mod conflict;
mod ending;
mod process;
mod simulated;
mod site;
mod source;
mod spinning;
