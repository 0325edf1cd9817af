//! What the daemon does, for both of its wirings.
//!
//! A small service that keeps notes for its tenants. `src/bin/daemon.rs` wires it with Crankcase,
//! and `src/bin/plain.rs` with tokio alone; `tests/it` runs both. Nothing here starts a task that
//! outlives its caller, restarts anything, or knows what comes before what: that is the wiring.

mod cache;
mod desk;
mod error;
mod file_changes;
mod http;
mod poller;
mod settings;
mod store;
mod sweeper;

pub use cache::{Cache, Note};
pub use desk::{Desk, DeskClosed, Writer};
pub use error::BoxError;
pub use file_changes::FileChanges;
pub use http::{View, bind, serve};
pub use poller::poll;
pub use settings::{Settings, Tenant};
pub use store::{Record, Store};
pub use sweeper::sweep;
