//! The machine for which a graph becomes a site: its folder, templates, host and state folder.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::Value;

use crate::declare::declaration::Scope;
use crate::declare::literal::as_written;

/// What the configs of a [`Graph`](crate::Graph) refer to on one machine.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Surroundings {
    /// The folder in which relative paths begin; absolute.
    pub folder: PathBuf,
    /// What renders template files. By default they stay as they are written.
    pub scope: Arc<dyn Scope>,
    /// What kinds that [read the host](crate::Resource::READS_HOST) see of the machine. Null by default.
    pub host: Arc<Value>,
    /// The state folder of the agent that is to keep the resources: nothing may be kept in it. None by default.
    pub state: Option<PathBuf>,
}

impl Surroundings {
    /// Returns the surroundings of configs whose relative paths begin in a folder.
    pub fn new(folder: &Path) -> Self {
        let (scope, host, state) = (as_written(), Arc::default(), None);
        Self { folder: folder.to_owned(), scope, host, state }
    }

    /// Sets what renders template files.
    #[must_use]
    pub fn scope(self, scope: impl Scope + 'static) -> Self {
        Self { scope: Arc::new(scope), ..self }
    }

    /// Sets what kinds that read the host see of the machine.
    #[must_use]
    pub fn host(self, host: Value) -> Self {
        Self { host: Arc::new(host), ..self }
    }

    /// Sets the state folder of the agent that is to keep the resources.
    #[must_use]
    pub fn state(self, folder: &Path) -> Self {
        Self { state: Some(folder.to_owned()), ..self }
    }
}
