//! General workers that need no engine: signals, file watching and external processes.
//!
//! Each worker takes its resources as plain arguments, hands out a cheap handle before it runs, and
//! runs until its [`Stop`](crankcase_engine::Stop) is told.

mod signal;

pub use signal::{Signal, SignalCounts, SignalError, SignalHandle, Signals};
