//! The settings of external types: their engine, their timeouts, their folders and their bounds.

use std::path::{Path, PathBuf};
use std::time::Duration;

/// The settings of external types.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Settings {
    /// The container engine of a type that names none, and words that come before its subcommands.
    /// Default `docker`.
    pub engine: Vec<String>,
    /// Words that come after `run`, such as `--ulimit=nofile=1024:1024`. Default none.
    pub run_options: Vec<String>,
    /// When images are pulled. Default [`Pull::Missing`].
    pub pull: Pull,
    /// The network of containers, as `--network` of the engine takes it. Default: the engine's own.
    pub network: Option<String>,
    /// The version that types of protocol 0 get. Default `18.0.0`, that of the last Deployster.
    pub version: String,
    /// Whether types are asked to say more. Default false.
    pub is_verbose: bool,
    /// A folder that types of protocol 0 can read at its own path. Default none.
    pub conf: Option<PathBuf>,
    /// The state folder of the agent. No plug may hold it. It has the names of the containers that
    /// run, so that the next agent can end those that a killed one has left. Default none.
    pub state: Option<PathBuf>,
    /// Whether the state folder is made if there is none, to put on record what runs. It is for a process that will
    /// hold the state folder later. Default false: without a state folder nothing is on record.
    pub makes_state: bool,
    /// The folder in which answers are kept for later processes: those of images, and of programs that say which files
    /// their answers depend on. It is made if there is none, but the folder around it is not. Default none.
    pub cache: Option<PathBuf>,
    /// Whether each type is asked again how it works, once, whatever is in that folder. Default false.
    pub is_fresh: bool,
    /// How long a call may take if it looks at something, or asks how a type works. Default 5
    /// minutes.
    pub look_timeout: Duration,
    /// How long an action may take. Default 1 hour; `meta.timeout` of a resource is for all of them.
    pub action_timeout: Duration,
    /// How long an engine may take to say what images it has, or to remove a container. Default 1 minute.
    pub engine_timeout: Duration,
    /// How much a type may answer, in bytes. Default 16 MiB.
    pub most: usize,
    /// How many types are asked at a time how they work. Default 16.
    pub parallel: usize,
    /// Whether a type that cannot be asked how it works concerns only its resources, which try
    /// again, and not the whole manifest. Default false.
    pub is_lenient: bool,
}

/// When images are pulled.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Pull {
    /// When they are not there.
    #[default]
    Missing,
    /// Each time that a manifest is loaded.
    Always,
    /// Never: one that is not there is an error.
    Never,
}

impl Settings {
    /// Returns the state folder, if something may be on record in it.
    pub(crate) fn record(&self) -> Option<&Path> {
        let state = self.state.as_deref();
        state.filter(|state| self.makes_state || state.is_dir())
    }
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            engine: vec!["docker".to_owned()],
            run_options: Vec::new(),
            pull: Pull::default(),
            network: None,
            version: "18.0.0".to_owned(),
            is_verbose: false,
            conf: None,
            state: None,
            makes_state: false,
            cache: None,
            is_fresh: false,
            look_timeout: Duration::from_secs(5 * 60),
            action_timeout: Duration::from_secs(60 * 60),
            engine_timeout: Duration::from_secs(60),
            most: 16 * 1024 * 1024,
            parallel: 16,
            is_lenient: false,
        }
    }
}
