//! General workers that need no engine: signals, file watching and external processes.
//!
//! Each worker takes its resources as plain arguments, hands out a cheap handle before it runs, and
//! runs until its [`Stop`](crankcase_engine::Stop) is told.

mod catacomb;
mod child;
mod condition;
mod config_file;
mod file_watch;
mod flag;
mod fortress;
mod gate;
mod heartbeat;
mod left_behind;
mod owned;
mod periodic;
mod process;
mod readiness;
mod runner;
mod service;
mod signal;
mod value;

pub use catacomb::{
    Catacomb, CatacombChild, CatacombConfig, CatacombEnded, CatacombHandle, CatacombReport,
};
pub use condition::Condition;
pub use config_file::{
    ConfigFile, ConfigFileConfig, ConfigFileError, ConfigFileStatus, ConfigFormat, LastGood,
};
pub use file_watch::{
    Subscription, WatchError, WatchLimits, WatchProblem, WatchStatus, Watcher, WatcherConfig,
    Watches, WatchesInput,
};
pub use flag::Flag;
pub use fortress::{Fortress, FortressError, FortressState, Guard, Guest, Occupied, Visit};
pub use gate::{Gate, Unlocker, Waiter};
pub use heartbeat::{Beat, Heartbeat, HeartbeatConfig, HeartbeatStatus, Pulse};
pub use left_behind::LeftBehind;
pub use owned::Owned;
pub use periodic::{FirstTurn, MissedTurns, Periodic, PeriodicConfig, PeriodicStats, Turn};
pub use process::{
    Fate, Ledger, LedgerError, Leftover, Process, ProcessConfig, ProcessEnd, ProcessError,
    ProcessHandle, ProcessStatus, Readiness, StopSignal, end_leftovers,
};
pub use runner::{
    ChildContext, ChildSpec, ChildWatch, Ending, Restart, Runner, RunnerChild, RunnerChildError,
    RunnerConfig, RunnerError, RunnerHandle, RunnerReport,
};
pub use service::{ServiceError, ServiceManager, ServiceState};
pub use signal::{Signal, SignalCounts, SignalError, SignalHandle, Signals};
pub use value::{Value, ValueHandle};
