//! The control socket and the state folder, with real sockets and files.

mod answers;
mod extending;
mod following;
mod holding;
mod hostile;
mod metrics;
mod page;
mod placing;
mod state_dir;
mod wire;
mod world;
