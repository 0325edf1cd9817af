//! The built-in kinds of resources: `exec`, `file`, `noop`, `print` and `process`.
//!
//! Each keeps to the contract of [`Kind`](crankcase_resources::dynamic::Kind) and needs nothing
//! else of the core: a kind of a user's own is written in the same way.
//!
//! [`builtin`] is what a manifest uses. The configs are public for graphs from Rust, as in
//! `File { content: Some("hello".into()), ..File::new(path) }`; see [`Graph`](crankcase_resources::Graph).
//!
//! # Examples
//!
//! ```
//! use std::path::Path;
//!
//! use crankcase_kinds::{EntryPath, File, builtin};
//! use crankcase_resources::front::Surroundings;
//! use crankcase_resources::{Graph, PlanOptions};
//!
//! # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let temporary = tempfile::tempdir()?;
//! # let root = temporary.path().display();
//! let folder = EntryPath::parse(&format!("{root}/www/"))?;
//! let docroot = Graph::of("docroot", File::new(folder));
//! let path = EntryPath::parse(&format!("{root}/www/index.html"))?;
//! let page = Graph::of("page", File { content: Some("hello\n".into()), ..File::new(path) });
//! let site = page.after(&docroot)?.site(&builtin(), &Surroundings::new(Path::new("/")))?;
//!
//! let plan = site.plan(&PlanOptions::default()).await;
//! assert_eq!((plan.changes(), plan.may_change()), (2, 0));
//! # Ok(()) }
//! ```
mod builtin;
mod command;
mod exec;
mod fact;
mod file;
mod noop;
mod object;
mod print;
mod process;

pub use builtin::{builtin, with_facts};
pub use command::{Account, Argv, Command, Environment, Grace, Limits, Setting, Umask};
pub use crankcase_workers::EntryPath;
pub use exec::{Exec, MaxOutput};
pub use fact::Fact;
pub use file::{File, InPlace, Presence, Principal};
pub use print::Print;
pub use process::{
    Daemon, Ending, Endpoint, Health, HttpUrl, Probe, Process, ProgramOutput, Ready, Reload,
    ReloadSignal, Timeout,
};
