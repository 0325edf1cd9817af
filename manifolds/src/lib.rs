//! Manifolds for the workers of Crankcase, and the frame of an agent.
//!
//! A manifold here says which inputs a worker has, how it is made of them, and what it offers. What
//! the worker does is in the crates of the workers, which know no manifold. Each module has a
//! function `manifold` for its worker. It takes the worker's config, and then the inputs and
//! functions that the worker needs. Where a config can be wrong, it is checked there, and the
//! function returns a `Result`.
//!
//! [`Agent`] is the frame: a daemon whose subsystems are manifolds takes about ten lines.
//! A [`Housing`] is put around any manifold: it says when its workers may run, and what their errors
//! mean. With the feature `resources`, the module `site` keeps resources as they are declared; with
//! the feature `manifest`, `source` loads them from a manifest, again when it changes, and `last_good` keeps a manifest
//! to go back to.
//!
//! A daemon needs this crate and no other of Crankcase: the [`engine`], the [`workers`] and the
//! [`status`] socket are here too.
//!
//! # Examples
//!
//! A command that runs while what it needs is there:
//!
//! ```
//! use crankcase_manifolds::engine::{Engine, Name};
//! use crankcase_manifolds::process;
//! use crankcase_manifolds::workers::{ProcessConfig, ProcessHandle};
//!
//! const DATA: Name<String> = Name::new("data");
//! const SERVER: Name<ProcessHandle> = Name::new("server");
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let config = ProcessConfig::new("server", ["sleep", "1000"].map(Into::into).into());
//! let server = process::manifold(process::Config { process: config, ledger: None }, DATA)?;
//!
//! let engine = Engine::builder().build()?;
//! engine.install(SERVER, server).await?;
//! let why = engine.why("server").await.map(|why| why.to_string());
//! assert_eq!(why.as_deref(), Some("/server waits for /data, which is not installed"));
//!
//! engine.provide(DATA, "/srv".to_owned()).await?;
//! assert!(engine.output(SERVER).await?.pid() > 0);
//! engine.stop().await?; // and no process is left
//! # Ok(())
//! # }
//! ```

mod agent;
pub mod catacomb;
pub mod config_file;
pub mod control;
mod detail;
#[cfg(feature = "facts")]
pub mod facts;
pub mod file_watch;
pub mod flag;
pub mod fortress;
pub mod gate;
pub mod heartbeat;
mod housing;
#[cfg(feature = "manifest")]
pub mod last_good;
mod logging;
pub mod metrics;
pub mod owned;
pub mod page;
pub mod periodic;
pub mod process;
pub mod runner;
#[cfg(feature = "resources")]
pub mod site;
mod site_origin;
#[cfg(feature = "manifest")]
pub mod source;
pub mod value;

pub use crankcase_engine as engine;
#[cfg(feature = "manifest")]
pub use crankcase_manifest as manifest;
#[cfg(feature = "resources")]
pub use crankcase_resources as resources;
pub use crankcase_status as status;
pub use crankcase_status::{ControlConfig, StateDir, StateLock};
pub use crankcase_workers as workers;

pub use agent::{Agent, AgentBuilder, AgentError, Ended, SIGNALS};
pub use housing::{Filter, Housing};
pub use logging::{LogFormat, Logging, LoggingError};

/// Compiles the examples of the pages on workers.
#[cfg(doctest)]
mod pages {
    #[doc = include_str!("../../docs/workers.md")]
    struct Workers;

    #[doc = include_str!("../../docs/owners.md")]
    struct Owners;
}
