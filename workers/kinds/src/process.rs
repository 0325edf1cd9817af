use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use crankcase_resources::{
    AttributeError, Attributes, BoxError, Check, CheckContext, Claimed, Config, Kind, KnownConfig,
    MAX_GRACE, Parameter, Resource,
};
use crankcase_workers::{ProcessConfig, StopSignal};
use serde_json::json;

use crate::command::{self, Shell};

const DEFAULT_GRACE: Duration = Duration::from_secs(10);

const PARAMETERS: &[Parameter] = &[
    Parameter { name: "command", summary: "the program and its arguments, as a list; required" },
    Parameter { name: "cwd", summary: "the folder to run in; / by default" },
    Parameter { name: "env", summary: "variables besides PATH, HOME and LANG" },
    Parameter { name: "user", summary: "the user to run as; the agent's own by default" },
    Parameter { name: "group", summary: "the group to run as; the user's main one by default" },
    Parameter { name: "umask", summary: "the mode bits that new files lack, in octal" },
    Parameter { name: "limits", summary: "limits by name, such as nofile, nproc, core and as" },
    Parameter { name: "stop_signal", summary: "what asks it to end; TERM by default" },
    Parameter { name: "grace", summary: "how long it may take to end; 10s by default, 5m at most" },
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

    fn judge(&self, known: &KnownConfig<'_>) -> Vec<AttributeError> {
        known.errors(self.validate(known.config))
    }

    fn claims(&self, known: &KnownConfig<'_>) -> Claimed {
        command::claims(known)
    }

    fn validate(&self, config: &Config) -> Result<Arc<dyn Resource>, Vec<AttributeError>> {
        Ok(Arc::new(Program { config: read(config)? }))
    }

    fn is_supervised(&self) -> bool {
        true
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
    attributes.finish(
        command.map(|command| place.process("", &command).stop_signal(stop_signal).grace(grace)),
    )
}
