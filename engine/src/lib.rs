//! A supervised dependency-injection worker engine.
//!
//! `inputs -> start -> outputs`: a *manifold* declares the inputs that a worker needs, how to start
//! it and the outputs it offers. An *engine* starts each worker when its typed inputs are there,
//! and bounces it when they change. It restarts a failed worker with jittered backoff, stops all
//! workers in order, and explains what it does.
//!
//! ```
//! use crankcase_engine::{Engine, Manifold, Name, Outcome, Stop, Worker};
//!
//! // A name, and the type behind it.
//! const STORE: Name<String> = Name::new("store");
//! const POLLER: Name<usize> = Name::new("poller");
//!
//! struct Poller {
//!     store: String,
//! }
//!
//! impl Worker for Poller {
//!     async fn run(self, stop: Stop) -> Outcome {
//!         stop.wait().await; // the work, until it is told to stop
//!         Ok(())
//!     }
//! }
//!
//! # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let poller = Manifold::builder()
//!     .inputs(STORE)
//!     .start(|store, _ctx| async move { Ok(Poller { store }) })
//!     .output(|poller| poller.store.len())
//!     .build();
//!
//! let engine = Engine::builder().build()?;
//! engine.install(POLLER, poller).await?;
//! engine.provide(STORE, "/var/lib/store".to_owned()).await?;
//! assert_eq!(engine.output(POLLER).await?, 14);
//! engine.stop().await?;
//! # Ok(()) }
//! ```
//!
//! # What it will not do
//!
//! - Start independent workers in a fixed order. The order is random, so that a dependency that is
//!   not declared shows early.
//! - Let a worker use anything that it did not declare as an input.
//! - Retry inside a worker. A worker ends with an error, and the engine decides.
//! - Run on anything but tokio.

mod change;
mod engine;
mod machine;
mod manifolds;
mod nested;
pub mod owner;
mod seen;
mod supervisor;
mod vocabulary;
mod worker;

pub use change::{Change, ChangeError, Preview};
pub use engine::Engine;
pub use engine::builder::EngineBuilder;
pub use engine::error::EngineError;
pub use engine::input::EngineInput;
pub use engine::output::OutputRequest;
#[cfg(feature = "bare-machine")]
#[doc(hidden)]
pub use machine::bare::drive_bare_machine;
pub use manifolds::Manifold;
pub use manifolds::closure::Changing;
pub use manifolds::publisher::{Publisher, Unacknowledged};
pub use nested::Nested;
pub use seen::event::{Event, EventKind, Origin};
pub use seen::graph::{Graph, GraphEdge, GraphNode};
pub use seen::log::{Events, Notice};
pub use seen::near::Near;
pub use seen::report::{
    AttemptsReport, Detail, EngineState, ErrorReport, InputReport, Report, StartReport, WaitedFor,
    WorkerReport, WorkerState,
};
pub use seen::why::{Why, WhyStep};
pub use supervisor::applied::Applied;
pub use vocabulary::backoff::{Backoff, Intensity};
pub use vocabulary::clock::Timestamp;
pub use vocabulary::error::{BoxError, ConfigError, SharedError, WithCauses};
pub use vocabulary::exit::{EndKind, Exit, Outcome, Panicked};
pub use vocabulary::family::Family;
pub use vocabulary::live::{EngineGone, Latest, Live};
pub use vocabulary::live_set::LiveSet;
pub use vocabulary::name::{Name, NameError};
pub use vocabulary::policy::Policy;
pub use vocabulary::settings::Severity;
pub use worker::Worker;
pub use worker::context::{Context, Health, Journal};
pub use worker::metrics::Metrics;
pub use worker::stop::{Stop, Stopper};

/// The builders of manifolds, and the traits that their methods ask for.
pub mod manifold {
    pub use crate::manifolds::builder::{Builder, OfferingBuilder};
    pub use crate::manifolds::closure::{Offers, Up};
    pub use crate::manifolds::staged::{StagedBuilder, Start};
}

/// The kinds of inputs, and the trait for input types of your own.
pub mod input {
    pub use crate::manifolds::input::named::{
        DefaultedInput, LatestInput, LiveInput, OptionalInput, Selected,
    };
    pub use crate::manifolds::input::set::LiveSetInput;
    pub use crate::manifolds::input::{Declared, Given, Inputs};
}

/// The interface that tests use to observe and disturb all workers of an engine.
#[cfg(feature = "testing")]
pub mod testing {
    pub use crate::vocabulary::value::name_of;
    pub use crate::worker::wrap::{Wrap, WrapPoint, Wrapped, WrappedInput};
}

/// Compiles and runs the examples of the guide.
#[cfg(doctest)]
#[doc = include_str!("../../docs/engine.md")]
struct Guide;

/// Compiles and runs the example of the project's front page.
#[cfg(doctest)]
#[doc = include_str!("../../README.md")]
struct Readme;

/// Compiles and runs the examples of the pages for users of other systems.
#[cfg(doctest)]
mod coming_from {
    #[doc = include_str!("../../docs/coming-from-tokio.md")]
    struct Tokio;

    #[doc = include_str!("../../docs/coming-from-juju.md")]
    struct Juju;

    #[doc = include_str!("../../docs/coming-from-fx-or-otp.md")]
    struct FxOrOtp;
}
