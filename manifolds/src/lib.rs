//! Manifolds for the workers of Crankcase, and the frame of an agent.
//!
//! A manifold here says which inputs a worker has, how it is made of them, and what it offers. What
//! the worker does is in the crates of the workers, which know no manifold.
//!
//! [`Agent`] is the frame: a daemon whose subsystems are manifolds takes about ten lines.
//! [`site`] keeps the resources of a manifest as it declares them, and [`source`] loads it again when
//! it changes.

mod agent;
pub mod config_file;
pub mod control;
mod detail;
pub mod file_watch;
pub mod heartbeat;
mod logging;
pub mod periodic;
pub mod process;
pub mod site;
pub mod source;

pub use agent::{Agent, AgentBuilder, AgentError, Ended, SIGNALS};
pub use logging::{LogFormat, Logging, LoggingError};

/// Compiles the examples of the page on workers.
#[cfg(doctest)]
#[doc = include_str!("../../docs/workers.md")]
struct Workers;
