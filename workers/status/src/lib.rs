//! The control socket of an agent, its client, and the state folder it stands in.
//!
//! [`StateDir`] is where an agent keeps what outlives it; its lock says that there is one agent.
//! [`Control`] is the worker that answers on a socket in it, or in the user's runtime folder if the
//! path is too long, and [`Client`] asks there. [`wire`] has what goes over the socket.

mod boot;
mod client;
mod config_error;
mod http;
mod metrics;
mod page;
pub mod picture;
mod server;
mod socket;
mod state_dir;
pub mod wire;

pub use boot::{Boot, BootStep, NotUp, seconds};
pub use client::{Client, ClientError, Follower};
pub use config_error::ConfigError;
pub use metrics::{MetricFamily, MoreMetrics};
pub use page::{Page, PageAddress, PageConfig, PageError};
pub use server::{Control, ControlConfig, Extension, Holder, MetricsError, MetricsServer};
pub use socket::SocketError;
pub use state_dir::{StateDir, StateError, StateLock};
