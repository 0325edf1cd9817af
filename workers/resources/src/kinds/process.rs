use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use crankcase_workers::{ProcessConfig, StopSignal};
use serde_json::json;

use crate::attributes::{AttributeError, Attributes, MAX_GRACE, Parameter};
use crate::declaration::Config;
use crate::kinds::command::{self, Shell};
use crate::known::{Files, KnownConfig};
use crate::resource::{BoxError, Check, CheckContext, Kind, Resource};

const DEFAULT_GRACE: Duration = Duration::from_secs(10);

const PARAMETERS: &[Parameter] = &[
    Parameter { name: "command", summary: "the program and its arguments, as a list; required" },
    Parameter { name: "cwd", summary: "the folder to run in; / by default" },
    Parameter { name: "env", summary: "variables besides PATH, HOME and LANG" },
    Parameter { name: "stop_signal", summary: "what asks it to end; TERM by default" },
    Parameter { name: "grace", summary: "how long it may take to end; 10s by default, 5m at most" },
];

/// What the kind of resources is called whose programs are kept running.
pub const PROCESS: &str = "process";

/// The `process` kind: a program that `run` supervises.
#[derive(Debug)]
pub(crate) struct Process;

impl Kind for Process {
    fn name(&self) -> &'static str {
        PROCESS
    }

    fn summary(&self) -> &'static str {
        "keeps a program running for as long as the agent runs"
    }

    fn parameters(&self) -> &[Parameter] {
        PARAMETERS
    }

    fn judge(&self, known: &KnownConfig<'_>) -> Vec<AttributeError> {
        known.errors(self.validate(known.config))
    }

    fn files(&self, _: &KnownConfig<'_>) -> Files {
        Files::of_command()
    }

    fn validate(&self, config: &Config) -> Result<Arc<dyn Resource>, Vec<AttributeError>> {
        Ok(Arc::new(Program { config: read(config)? }))
    }
}

/// A program that `run` supervises, as declared.
#[derive(Debug)]
struct Program {
    config: ProcessConfig,
}

#[async_trait]
impl Resource for Program {
    async fn check(&self, _: &CheckContext) -> Result<Check, BoxError> {
        let command: Vec<_> =
            self.config.command.iter().map(|word| word.to_string_lossy()).collect();
        Ok(Check::RunOnly(json!({"command": command})))
    }

    fn program(&self) -> Option<&ProcessConfig> {
        Some(&self.config)
    }
}

fn read(config: &Config) -> Result<ProcessConfig, Vec<AttributeError>> {
    let mut attributes = Attributes::new(config, PARAMETERS);
    if attributes.value("command").is_none() {
        attributes.wrong("command", "is missing".to_owned());
    }
    let command = command::command(&mut attributes, "command", Shell::Never);
    let place = command::place(&mut attributes);
    let signals = StopSignal::ALL.map(StopSignal::name);
    let stop_signal = attributes
        .choice("stop_signal", &signals)
        .and_then(|name| StopSignal::ALL.into_iter().find(|signal| signal.name() == name))
        .unwrap_or_default();
    let grace = attributes.duration_up_to("grace", MAX_GRACE).unwrap_or(DEFAULT_GRACE);
    attributes.finish(command.map(|command| {
        let command = command.into_iter().map(Into::into).collect();
        let environment =
            place.env.into_iter().map(|(name, value)| (name.into(), value.into())).collect();
        let process = ProcessConfig::new("", command).environment(environment);
        let process = process.stop_signal(stop_signal).grace(grace);
        match place.cwd {
            Some(folder) => process.folder(folder),
            None => process,
        }
    }))
}
