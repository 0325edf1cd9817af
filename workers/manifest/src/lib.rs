//! The manifest that declares resources: YAML files with expressions.
//!
//! It is a front of `crankcase-resources`: it makes a [`Site`](crankcase_resources::Site) of files,
//! and knows no kind. [`SiteFiles`] loads it once, [`SiteSource`] is the worker that loads it again
//! when it changes.
mod facts;
mod host;
mod judge;
mod manifest;
mod site_files;
mod source;

pub use facts::{SeenFacts, SeenLayer, SiteFacts};
pub use host::Host;
pub use judge::SiteJudge;
pub use manifest::{DataError, DataFiles, Manifest, ManifestError, Overrides, Problem, WrongFacts};
pub use site_files::SiteFiles;
pub use source::SiteSource;
