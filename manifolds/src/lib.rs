//! Manifolds for the workers of Crankcase, and the frame of an agent.
//!
//! A manifold here says which inputs a worker has, how it is made of them, and what it offers. What
//! the worker does is in the crates of the workers, which know no manifold.
//!
//! [`Agent`] is the frame: a daemon whose subsystems are manifolds takes about ten lines.
//! A [`Housing`] is put around any manifold: it says when its workers may run, and what their errors
//! mean. [`site`] keeps the resources of a manifest as it declares them, and [`source`] loads it again when
//! it changes.

mod agent;
pub mod catacomb;
pub mod config_file;
pub mod control;
mod detail;
pub mod file_watch;
pub mod flag;
pub mod fortress;
pub mod gate;
pub mod heartbeat;
mod housing;
mod logging;
pub mod periodic;
pub mod process;
pub mod runner;
pub mod site;
pub mod source;
pub mod value;

pub use agent::{Agent, AgentBuilder, AgentError, Ended, SIGNALS};
pub use housing::{Filter, Housing};
pub use logging::{LogFormat, Logging, LoggingError};

/// Compiles the examples of the page on workers.
#[cfg(doctest)]
#[doc = include_str!("../../docs/workers.md")]
struct Workers;
