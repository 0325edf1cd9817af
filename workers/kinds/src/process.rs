//! The kind `process`: keeps a program running for as long as the agent runs.

use std::convert::Infallible;

use crankcase_resources::{
    BoxError, Check, Claimed, Context, Field, Params, Resource, Supervised, Type, Unfinished, Wrong,
};
use crankcase_workers::{ProcessConfig, StopSignal};
use serde_json::Value;

use crate::command::{self, Argv, Grace, Setting};

/// keeps a program running for as long as the agent runs
#[derive(Debug, Clone, PartialEq, Params)]
pub struct Process {
    /// the program and its arguments, as a list
    pub command: Argv,
    /// how the program runs
    #[param(flatten)]
    pub setting: Setting,
    /// what asks it to end
    #[param(default = "TERM")]
    pub stop_signal: Ending,
    /// how long it may take to end, at most 5 minutes
    #[param(default = "10s")]
    pub grace: Grace,
}

/// The state of the `process` kind.
#[derive(Debug, Clone, PartialEq, Params)]
pub struct ProcessState {
    /// the program and its arguments
    #[param(declared)]
    pub command: Argv,
}

/// A signal that asks a program to end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ending(pub StopSignal);

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

impl Resource for Process {
    const NAME: &'static str = "process";
    type State = ProcessState;
    type Action = Infallible;

    fn claims(partial: &ProcessPartial) -> Claimed {
        command::claims(&[partial.command.as_ref().map(|argv| argv.0.clone())], &partial.setting)
    }

    async fn check(&self, _: &Context) -> Result<Check<Self>, BoxError> {
        Ok(Check::valid(ProcessState { command: self.command.clone() }))
    }

    async fn act(&self, action: &Infallible, _: &Context) -> Result<(), Unfinished> {
        match *action {}
    }
}

impl Supervised for Process {
    fn program(&self) -> ProcessConfig {
        let process = self.setting.process("", &self.command.0);
        process.stop_signal(self.stop_signal.0).grace(self.grace.0)
    }
}
