//! The manifest that declares resources: YAML files with expressions.
//!
//! It is a front of `crankcase-resources`: it makes a [`Site`](crankcase_resources::Site) of files,
//! and knows no kind. [`SiteFiles`] loads it once, [`SiteSource`] is the worker that loads it again
//! when it changes. [`LastGood`] has the files of the last good manifest, to go back to.
mod facts;
mod host;
mod judge;
mod last_good;
mod manifest;
mod site_files;
mod source;

pub use facts::{SeenFacts, SeenLayer, SiteFacts};
pub use host::Host;
pub use judge::{LoadError, SiteJudge};
pub use last_good::LastGood;
pub use manifest::{
    DataError, DataFiles, KeptManifest, Manifest, ManifestError, Overrides, Problem, WrongFacts,
};
pub use site_files::SiteFiles;
pub use source::SiteSource;
