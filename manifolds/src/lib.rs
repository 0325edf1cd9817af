//! Manifolds for the workers of Crankcase, and the frame of an agent.
//!
//! [`Agent`] is the frame: a daemon whose subsystems are manifolds takes about ten lines.

mod agent;
pub mod control;

pub use agent::{Agent, AgentBuilder, AgentError, Ended, SIGNALS};
