use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use serde_json::json;

use crate::attributes::{Attributes, ConfigError, Parameter};
use crate::declaration::Config;
use crate::kinds::command;
use crate::resource::{BoxError, Check, CheckContext, Kind, Resource};

const DEFAULT_GRACE: Duration = Duration::from_secs(10);

const PARAMETERS: &[Parameter] = &[
    Parameter { name: "command", summary: "the program and its arguments, as a list; required" },
    Parameter { name: "cwd", summary: "the folder to run in; / by default" },
    Parameter { name: "env", summary: "variables besides PATH, HOME and LANG" },
    Parameter { name: "stop_signal", summary: "what asks it to end; TERM by default" },
    Parameter { name: "grace", summary: "how long it may take to end; 10s by default" },
];

/// The `process` kind: a program that `run` supervises.
#[derive(Debug)]
pub(crate) struct Process;

impl Kind for Process {
    fn name(&self) -> &'static str {
        "process"
    }

    fn summary(&self) -> &'static str {
        "keeps a program running for as long as the agent runs"
    }

    fn parameters(&self) -> &[Parameter] {
        PARAMETERS
    }

    fn validate(&self, config: &Config) -> Result<Arc<dyn Resource>, Vec<ConfigError>> {
        Ok(Arc::new(ProcessConfig::new(config)?))
    }
}

#[async_trait]
impl Resource for ProcessConfig {
    async fn check(&self, _: &CheckContext) -> Result<Check, BoxError> {
        Ok(Check::RunOnly(json!({"command": self.command})))
    }
}

/// A program that `run` supervises, as declared.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ProcessConfig {
    /// The program and its arguments; there is at least the program.
    pub command: Vec<String>,
    /// The folder that it runs in; `/` if none is given.
    pub cwd: Option<PathBuf>,
    /// Its variables besides PATH, HOME and LANG.
    pub env: BTreeMap<String, String>,
    /// What asks it to end.
    pub stop_signal: StopSignal,
    /// How long it may then take before it is killed; 10 seconds by default.
    pub grace: Duration,
}

impl ProcessConfig {
    /// Reads the config of a `process` resource.
    ///
    /// # Errors
    ///
    /// All that is wrong with it.
    pub fn new(config: &Config) -> Result<Self, Vec<ConfigError>> {
        let mut attributes = Attributes::new(config, PARAMETERS);
        if attributes.value("command").is_none() {
            attributes.wrong("command", "is missing".to_owned());
        }
        let command = command::command(&mut attributes, "command", None);
        let place = command::place(&mut attributes);
        let signals = StopSignal::ALL.map(StopSignal::name);
        let stop_signal = attributes
            .choice("stop_signal", &signals)
            .and_then(|name| StopSignal::ALL.into_iter().find(|signal| signal.name() == name))
            .unwrap_or_default();
        let grace = attributes.duration("grace").unwrap_or(DEFAULT_GRACE);
        attributes.finish(command.map(|command| Self {
            command,
            cwd: place.cwd,
            env: place.env,
            stop_signal,
            grace,
        }))
    }
}

/// A signal that asks a process to end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum StopSignal {
    /// SIGTERM, the default.
    #[default]
    Term,
    /// SIGINT.
    Int,
    /// SIGQUIT.
    Quit,
    /// SIGHUP.
    Hup,
    /// SIGUSR1.
    Usr1,
    /// SIGUSR2.
    Usr2,
    /// SIGKILL, which leaves the process no time to clean up.
    Kill,
}

impl StopSignal {
    /// Every signal that can be asked for.
    pub const ALL: [Self; 7] =
        [Self::Term, Self::Int, Self::Quit, Self::Hup, Self::Usr1, Self::Usr2, Self::Kill];

    /// Returns the name that a manifest uses.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Term => "TERM",
            Self::Int => "INT",
            Self::Quit => "QUIT",
            Self::Hup => "HUP",
            Self::Usr1 => "USR1",
            Self::Usr2 => "USR2",
            Self::Kill => "KILL",
        }
    }
}
