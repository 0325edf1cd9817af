//! The frame of an agent, with real processes, signals and sockets.

mod conflict;
mod ending;
mod process;
mod spinning;
