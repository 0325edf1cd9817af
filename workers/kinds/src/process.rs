//! The kind `process`: keeps a program running, also while the agent is away.

use std::convert::Infallible;

use crankcase_resources::{
    AttributeError, BoxError, Check, Claimed, Context, Field, Params, Partial, Resource,
    Supervised, Type, Unfinished, Wrong,
};
use crankcase_workers::{ProcessConfig, StopSignal};
use serde_json::Value;

use crate::command::{self, Argv, Grace, Setting};
pub use crate::process::daemon::Daemon;
pub use crate::process::endpoint::{Endpoint, HttpUrl};
pub use crate::process::health::{Health, Probe};
pub use crate::process::ready::Ready;
pub use crate::process::reload::{Reload, ReloadSignal};
pub use crate::process::timeout::Timeout;

mod daemon;
mod endpoint;
mod health;
mod ready;
mod reload;
mod timeout;

/// keeps a program running, also while the agent is away
#[derive(Debug, Clone, PartialEq, Params)]
pub struct Process {
    /// the program and its arguments, as a list
    pub command: Argv,
    /// how the program runs
    #[param(flatten)]
    pub setting: Setting,
    /// the daemon that it leaves; it stays in the foreground by default
    pub daemon: Option<Daemon>,
    /// what makes it ready for those that depend on it; that it runs by default
    pub ready: Option<Ready>,
    /// how long it may take to be ready, at most 24 hours; then it has failed
    #[param(default = "1m")]
    pub ready_timeout: Timeout,
    /// how it reads its configuration anew, for `on_change: reload`; it is restarted by default
    pub reload: Option<Reload>,
    /// how it is asked whether it is well; if not, it is restarted
    pub health: Option<Health>,
    /// what asks it to end
    #[param(default = "TERM")]
    pub stop_signal: Ending,
    /// how long it may take to end, at most 5 minutes
    #[param(default = "10s")]
    pub grace: Grace,
    /// where its output goes: the agent's log, a file in the state folder, or nowhere
    #[param(default = "journal")]
    pub output: ProgramOutput,
    /// whether it runs on when the agent ends, for the next one to adopt
    #[param(default = true)]
    pub keep: bool,
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

/// Where the output of a program goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProgramOutput {
    /// To the agent's log.
    Journal,
    /// To a file in the state folder.
    File,
    /// Nowhere: it is dropped.
    None,
}

impl ProgramOutput {
    const WORDS: [&str; 3] = ["journal", "file", "none"];
}

impl Field for ProgramOutput {
    fn ty() -> Type {
        Type::choice(&Self::WORDS)
    }

    fn take(value: &Value) -> Result<Self, Wrong> {
        Ok(match Self::ty().word(value)? {
            "file" => Self::File,
            "none" => Self::None,
            _ => Self::Journal,
        })
    }

    fn give(&self) -> Value {
        let [journal, file, none] = Self::WORDS;
        let word = match self {
            Self::Journal => journal,
            Self::File => file,
            Self::None => none,
        };
        word.into()
    }
}

impl Resource for Process {
    const NAME: &'static str = "process";
    type State = ProcessState;
    type Action = Infallible;

    fn rules(partial: &mut ProcessPartial, errors: &mut Vec<AttributeError>) {
        let Partial::Given(Some(ready)) = &partial.ready else { return };
        let mut wrong = |message| errors.push(AttributeError::new("ready", message));
        if let Partial::Given(within) = partial.ready_timeout {
            ready.too_late(within).into_iter().for_each(&mut wrong);
        }
        if *ready == Ready::Notify && matches!(partial.setting.user, Partial::Given(Some(_))) {
            wrong("notify: a program with another user cannot reach the agent's socket".to_owned());
        }
    }

    fn claims(partial: &ProcessPartial) -> Claimed {
        let command = partial.command.as_ref().map(|argv| argv.0.clone());
        let reload = partial.reload.as_ref();
        let reload = reload.map(|it| it.as_ref().map(Reload::words).unwrap_or_default());
        let health = partial.health.as_ref();
        let health = health.map(|it| it.as_ref().map(Health::words).unwrap_or_default());
        command::claims(&[command, reload, health], &partial.setting)
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
        let process =
            process.stop_signal(self.stop_signal.0).grace(self.grace.0).survives(self.keep);
        let readiness = self.ready.as_ref().map(Ready::readiness).unwrap_or_default();
        let mut process = process.readiness(readiness).ready_timeout(self.ready_timeout.0);
        process.reload = self.reload.as_ref().map(Reload::of_process);
        process.health = self.health.as_ref().map(Health::check);
        process.pid_file = self.daemon.as_ref().map(|it| it.pid_file.as_ref().to_owned());
        match self.output {
            ProgramOutput::Journal => process,
            // It is bounded by its length. The agent knows where it is.
            ProgramOutput::File => process.lines_per_second(u32::MAX).log_file("output".into()),
            ProgramOutput::None => process.lines_per_second(0),
        }
    }
}
