//! General workers that need no engine: signals, file watching and external processes.
//!
//! Each worker takes its resources as plain arguments, hands out a cheap handle before it runs, and
//! runs until its [`Stop`](crankcase_engine::Stop) is told.

mod condition;
mod config_file;
mod file_watch;
mod heartbeat;
mod periodic;
mod process;
mod readiness;
mod service;
mod signal;

pub use condition::Condition;
pub use config_file::{
    ConfigFile, ConfigFileConfig, ConfigFileError, ConfigFileStatus, ConfigFormat, LastGood,
};
pub use file_watch::{
    Subscription, WatchError, WatchLimits, WatchProblem, WatchStatus, Watcher, WatcherConfig,
    Watches, WatchesInput,
};
pub use heartbeat::{Beat, Heartbeat, HeartbeatConfig, HeartbeatStatus, Pulse};
pub use periodic::{FirstTurn, MissedTurns, Periodic, PeriodicConfig, PeriodicStats, Turn};
pub use process::{
    Fate, Ledger, LedgerError, Leftover, Process, ProcessConfig, ProcessEnd, ProcessError,
    ProcessHandle, ProcessStatus, Readiness, StopSignal, end_leftovers,
};
pub use service::{ServiceError, ServiceManager, ServiceState};
pub use signal::{Signal, SignalCounts, SignalError, SignalHandle, Signals};
