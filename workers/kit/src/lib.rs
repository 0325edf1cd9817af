//! The workers that everybody writes, each usable without an engine.
//!
//! A worker takes its resources as plain arguments, hands out a cheap handle before it runs, and runs
//! until its [`Stop`] is told or it ends by itself:
//!
//! ```text
//! fn run(self, stop: Stop) -> impl Future<Output = Outcome> + Send
//! ```
//!
//! | worker | for |
//! | --- | --- |
//! | [`Catacomb`] | the parts of one worker, which live and die together |
//! | [`Runner`] | many named workers that come and go, and know nothing of each other |
//! | [`Gate`], [`Flag`], [`Value`] | to wait until something was done, to say whether a worker is to run, to pass a value |
//! | [`Fortress`] | many guests, or one guard alone |
//! | [`Owned`] | a worker and what it exposes, made together |
//! | [`Periodic`] | work that is done in turns |
//! | [`ConfigFile`] | a typed configuration that follows its file |
//! | [`Heartbeat`] | to notice who has fallen silent |
//! | [`Process`] | an external program, with all that it starts |
//! | [`Watcher`] | to learn that files have changed |
//! | [`Signals`] | SIGINT, SIGTERM and SIGHUP |
//!
//! [`Folder`] and what goes with it is for work with files where others may be at work too.
//! [`ServiceManager`] tells systemd how it goes. The manifolds that put these workers into an engine
//! are in `crankcase-manifolds`.
//!
//! # Examples
//!
//! A worker without an engine, run by hand:
//!
//! ```
//! # #[tokio::main(flavor = "current_thread", start_paused = true)]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use std::time::Duration;
//! use crankcase_engine::{Stop, Worker};
//! use crankcase_workers::{Periodic, PeriodicConfig};
//! use tokio::time::sleep;
//!
//! let every_minute = PeriodicConfig::new(Duration::from_secs(60));
//! let sweeper = Periodic::new(every_minute, |turn| async move {
//!     println!("sweeping for the {}th time", turn.number + 1);
//!     Ok(())
//! })?;
//! let stats = sweeper.stats();
//! let (stopper, stop) = Stop::pair();
//! let an_hour = async {
//!     sleep(Duration::from_secs(3600)).await;
//!     stopper.stop();
//! };
//! let (ended, ()) = tokio::join!(sweeper.run(stop), an_hour);
//! assert!(ended.is_ok());
//! assert_eq!(stats.borrow().done, 60);
//! # Ok(())
//! # }
//! ```
//!
//! [`Stop`]: crankcase_engine::Stop

mod catacomb;
mod child;
mod condition;
mod config_file;
mod file_watch;
mod files;
mod flag;
mod fortress;
mod gate;
mod heartbeat;
mod json;
mod json_pointer;
mod left_behind;
mod list;
mod moment;
mod occupied;
mod owned;
mod periodic;
mod printable;
mod proc_mount;
mod process;
mod quiet_time;
mod readiness;
mod runner;
mod secrets;
mod seed;
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
    Watches, WatchesInput, Writing,
};
pub use files::{
    Entries, Entry, EntryKind, EntryPath, FileError, Folder, Found, HeldFolder, NotAnEntry,
    OVERWRITE_LIMIT, Overwrite, Temporary, finish_overwrites, forget_file, group_id, group_name,
    is_temporary, open_file, read_file, replace_file, temporary_name, user_id, user_name,
};
pub use flag::Flag;
pub use fortress::{Fortress, FortressError, FortressState, Guard, Guest, Visit};
pub use gate::{Gate, Unlocker, Waiter};
pub use heartbeat::{Beat, Heartbeat, HeartbeatConfig, HeartbeatStatus, Pulse};
pub use json::read_json;
pub use json_pointer::{pointer_segment, read_pointer_segment};
pub use left_behind::LeftBehind;
pub use list::name_first;
pub use occupied::Occupied;
pub use owned::Owned;
pub use periodic::{FirstTurn, MissedTurns, Periodic, PeriodicConfig, PeriodicStats, Turn};
pub use printable::{
    is_unprintable, one_line, printable, printable_json, printable_lines, printable_yaml,
};
pub use proc_mount::explain_proc;
pub use process::{
    Cgroups, Containment, Escaped, Fate, Finished, HealthCheck, HealthProbe, Job, JobError, Ledger,
    LedgerError, Leftover, Leftovers, Limit, Process, ProcessConfig, ProcessEnd, ProcessError,
    ProcessGroup, ProcessHandle, ProcessId, ProcessStatus, Readiness, Reload, ReloadError,
    StopSignal, Survivor, Told, end_leftovers, find_survivors, launch, sort_leftovers,
};
pub use quiet_time::QuietTime;
pub use runner::{
    ChildContext, ChildSpec, ChildWatch, Ending, Restart, Runner, RunnerChild, RunnerChildError,
    RunnerConfig, RunnerError, RunnerHandle, RunnerReport,
};
pub use secrets::Secrets;
pub use service::{ServiceError, ServiceManager, ServiceState};
pub use signal::{Signal, SignalCounts, SignalError, SignalHandle, Signals};
pub use value::{Value, ValueHandle};
