use std::sync::Arc;

use async_trait::async_trait;
use crankcase_resources::{
    AttributeError, BoxError, Check, CheckContext, Claimed, Config, Field, Kind, KnownConfig,
    Params, Resource, Rules, Table, Type, Wrong, judge, read, state,
};
use crankcase_workers::{ProcessConfig, StopSignal};
use serde_json::Value;

use crate::command::{self, Argv, Grace, Setting};

/// The config of the `process` kind.
#[derive(Debug, Clone, PartialEq, Params)]
struct ProgramConfig {
    /// the program and its arguments, as a list
    command: Argv,
    /// how the program runs
    #[param(flatten)]
    setting: Setting,
    /// what asks it to end
    #[param(default = "TERM")]
    stop_signal: Ending,
    /// how long it may take to end, at most 5 minutes
    #[param(default = "10s")]
    grace: Grace,
}

impl Rules for ProgramConfig {}

/// The state of the `process` kind.
#[derive(Debug, Clone, PartialEq, Params)]
struct ProgramState {
    /// the program and its arguments
    #[param(declared)]
    command: Vec<String>,
}

/// A signal that asks a program to end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Ending(StopSignal);

impl Field for Ending {
    fn ty() -> Type {
        Type::choice(&StopSignal::ALL.map(StopSignal::name))
    }

    fn take(value: &Value) -> Result<Self, Wrong> {
        let ty = Self::ty();
        let name = ty.word(value)?;
        let signal = StopSignal::ALL.into_iter().find(|signal| signal.name() == name);
        Ok(Self(signal.expect("the words are their names")))
    }

    fn give(&self) -> Value {
        self.0.name().into()
    }
}

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

    fn table(&self) -> &Table {
        ProgramConfig::table()
    }

    fn states(&self) -> &Table {
        ProgramState::table()
    }

    fn judge(&self, known: &KnownConfig<'_>) -> Vec<AttributeError> {
        judge::<ProgramConfig>(known)
    }

    fn claims(&self, known: &KnownConfig<'_>) -> Claimed {
        command::claims(known)
    }

    fn validate(&self, config: &Config) -> Result<Arc<dyn Resource>, Vec<AttributeError>> {
        let ProgramConfig { command, setting, stop_signal, grace } = read(config)?;
        let config = setting.process("", &command.0).stop_signal(stop_signal.0).grace(grace.0);
        Ok(Arc::new(Program { config, state: ProgramState { command: command.0 } }))
    }

    fn is_supervised(&self) -> bool {
        true
    }
}

/// A program that `run` supervises, as declared.
#[derive(Debug)]
struct Program {
    config: ProcessConfig,
    state: ProgramState,
}

#[async_trait]
impl Resource for Program {
    async fn check(&self, _: &CheckContext) -> Result<Check, BoxError> {
        Ok(Check::RunOnly(state(self.state.clone())))
    }

    fn program(&self) -> Option<&ProcessConfig> {
        Some(&self.config)
    }
}
