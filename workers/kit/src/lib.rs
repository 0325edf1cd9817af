//! General workers that need no engine: signals, file watching and external processes.
//!
//! Each worker takes its resources as plain arguments, hands out a cheap handle before it runs, and
//! runs until its [`Stop`](crankcase_engine::Stop) is told.

mod catacomb;
mod child;
mod file_watch;
mod flag;
mod fortress;
mod gate;
mod left_behind;
mod owned;
mod process;
mod readiness;
mod runner;
mod signal;
mod value;

pub use catacomb::{
    Catacomb, CatacombChild, CatacombConfig, CatacombEnded, CatacombHandle, CatacombReport,
};
pub use file_watch::{Subscription, WatchError, WatchProblem, Watcher, WatcherConfig, Watches};
pub use flag::Flag;
pub use fortress::{Fortress, FortressError, FortressState, Guard, Guest, Occupied, Visit};
pub use gate::{Gate, Unlocker, Waiter};
pub use left_behind::LeftBehind;
pub use owned::Owned;
pub use process::{
    Fate, Ledger, LedgerError, Leftover, Process, ProcessConfig, ProcessError, StopSignal,
    end_leftovers,
};
pub use runner::{
    ChildContext, ChildSpec, ChildWatch, Ending, Restart, Runner, RunnerChild, RunnerChildError,
    RunnerConfig, RunnerError, RunnerHandle, RunnerReport,
};
pub use signal::{Signal, SignalCounts, SignalError, SignalHandle, Signals};
pub use value::{Value, ValueHandle};
