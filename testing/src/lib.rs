//! The test kit for workers and manifolds.
//!
//! A test of a manifold should need no agent around it, no sleep and no luck. It needs three
//! things: *stubs* in the place of inputs, a *paused clock*, and something to *wait for*. The kit
//! has them, and runs manifolds in a real engine: what holds in the test holds in production.
//!
//! ```
//! use crankcase_engine::{Manifold, Name, Outcome, Stop, Worker};
//! use crankcase_testing::{Stubs, start};
//!
//! const STORE: Name<String> = Name::new("store");
//! const LIMIT: Name<u32> = Name::new("limit");
//!
//! struct Poller {
//!     greeting: String,
//! }
//!
//! impl Worker for Poller {
//!     async fn run(self, stop: Stop) -> Outcome {
//!         stop.wait().await;
//!         Ok(())
//!     }
//! }
//!
//! fn poller() -> Manifold {
//!     Manifold::builder()
//!         .inputs((STORE, LIMIT.optional().or(10)))
//!         .start(|(store, limit), _ctx| async move {
//!             Ok(Poller { greeting: format!("{store} up to {limit}") })
//!         })
//!         .output(|poller| poller.greeting.clone())
//!         .build()
//! }
//!
//! // In a test: `#[tokio::test(start_paused = true)]`.
//! # #[tokio::main(flavor = "current_thread", start_paused = true)]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let stubs = Stubs::new().value(STORE, "/srv".to_owned()).absent(LIMIT);
//! let started = start(poller(), stubs).await?;
//! assert_eq!(started.output::<String>().await?, "/srv up to 10");
//! assert!(started.stop().await.is_ok());
//! # Ok(()) }
//! ```
//!
//! # What is in it
//!
//! - [`start`] runs one manifold with [`Stubs`] for its inputs; [`Started`] looks at its outputs,
//!   its report and its end.
//! - [`Harness`] runs one manifold or nested engine whose inputs come, change, go and fail as the test
//!   says; its expectations wait for events.
//! - [`FakeWatcher`] stands in the place of what tells of changes.
//! - [`Script`] is a worker that does what the test tells it: ends, panics, fails to start, ignores
//!   its stop, never yields. [`Journal`] records what doubles were started with and when they were
//!   told to stop.
//! - [`Simulation`] runs manifolds among faults, once for each seed, and judges the engine's promises
//!   and your own invariants; a seed that fails replays exactly.
//! - [`Conformance`] checks that any worker, or that of any manifold, is as an engine needs it.
//! - [`test_engine`] builds an engine without jitter; [`EventRecorder`], [`wait_for_event`] and
//!   [`wait_for_state`] wait for what it does.
//! - [`check_alive`], [`check_killed`], [`check_kill`], [`clean_kill`] and [`dirty_kill`] say whether
//!   and how engines and bare workers have ended. [`Bare`] runs a worker without an engine.
//!
//! A simulation, in a plain `#[test]`:
//!
//! ```
//! use crankcase_engine::{Manifold, Name};
//! use crankcase_testing::Simulation;
//!
//! const WEB: Name<()> = Name::new("web");
//!
//! # fn main() -> Result<(), crankcase_testing::Broken> {
//! let simulation = Simulation::new(|setup| {
//!     let web = Manifold::builder().run(|(), up| async move {
//!         up.ready(()).wait().await;
//!         Ok(())
//!     });
//!     setup.install(WEB, web);
//!     setup.recovered("web is up", |view| view.is_up("/web"));
//! });
//! simulation.safety(0..10)?;
//! simulation.liveness(0..10)?;
//! # Ok(()) }
//! ```
//!
//! Every wait ends: after ten minutes by the clock it fails, and says what was seen until then.
//!
//! The guide `docs/testing.md` leads through all of it.
//!
//! # The paused clock
//!
//! With `#[tokio::test(start_paused = true)]` tokio's clock stands still while anything can run,
//! and jumps to the next timer when nothing can. A backoff of two minutes takes no time, and
//! `tokio::time::Instant` measures it exactly. Work on other threads does not hold the clock: test
//! blocking workers and multi-threaded runtimes with a clock that runs, and wait for events.

mod bare;
mod conformance;
mod engine;
mod failure;
mod harness;
mod input;
mod journal;
mod kill;
mod recorder;
mod script;
mod signal;
mod simulation;
mod started;
mod stubs;
mod subject;
mod wait;
mod watcher;

pub use bare::Bare;
pub use conformance::{Conformance, Installed};
pub use engine::{test_engine, test_policy};
pub use failure::Failure;
pub use harness::Harness;
pub use input::Input;
pub use journal::Journal;
pub use kill::{Running, check_alive, check_kill, check_killed, clean_kill, dirty_kill};
pub use recorder::{EventRecorder, wait_for_event};
pub use script::Script;
pub use simulation::{Broken, Faults, Mode, Notes, Setup, Simulation, Tally, Trace, View};
pub use started::{StartError, Started, start};
pub use stubs::Stubs;
pub use wait::wait_for_state;
pub use watcher::{FakeNotifyWatcher, FakeStringsWatcher, FakeWatcher, Watching};

/// Compiles and runs the examples of the guide.
#[cfg(doctest)]
#[doc = include_str!("../../docs/testing.md")]
struct Guide;
