//! How a program reads its configuration anew.

use std::time::Duration;

use crankcase_resources::dynamic::{Parameter, Reader, Table};
use crankcase_resources::{Field, Type, Wrong};
use crankcase_workers::StopSignal;
use serde_json::{Value, json};

use crate::command::Argv;
use crate::object::{only, optional, read};
use crate::process::timeout::Timeout;

/// How long a command may take if nothing else is said.
const DEFAULT: Timeout = Timeout(Duration::from_secs(60));

/// How a program is told to read its configuration anew.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reload {
    /// It gets this signal.
    Signal(ReloadSignal),
    /// This command tells it, and has to exit with 0 within this time.
    Command(Argv, Timeout),
}

impl Reload {
    fn table() -> Table {
        let command = "the program and its arguments; it has to exit with 0";
        let timeout = "how long the command may take; a minute by default";
        let parameters = vec![
            Parameter::of::<Option<ReloadSignal>>("signal", "a signal that the program gets"),
            Parameter::of::<Option<Argv>>("command", command),
            Parameter::of::<Option<Timeout>>("timeout", timeout),
        ];
        Table::new("how a program reads its configuration anew", parameters)
    }

    fn choose(reader: &mut Reader<'_>) -> Result<Self, String> {
        let timeout = optional::<Timeout>(reader, "timeout");
        let command = optional(reader, "command");
        let command = command.map(|argv| Self::Command(argv, timeout.unwrap_or(DEFAULT)));
        let signal = optional(reader, "signal").map(Self::Signal);
        match only([("signal", signal), ("command", command)])? {
            Self::Signal(_) if timeout.is_some() => Err("timeout: a signal has none".to_owned()),
            reload => Ok(reload),
        }
    }

    /// Returns the words of the command; of a signal none.
    pub(super) fn words(&self) -> Vec<String> {
        match self {
            Self::Signal(_) => Vec::new(),
            Self::Command(argv, _) => argv.0.clone(),
        }
    }

    /// Returns the same for a process.
    pub(super) fn of_process(&self) -> crankcase_workers::Reload {
        match self {
            Self::Signal(signal) => crankcase_workers::Reload::Signal(signal.0),
            Self::Command(argv, timeout) => crankcase_workers::Reload::Command {
                command: argv.0.iter().map(Into::into).collect(),
                timeout: timeout.0,
            },
        }
    }
}

impl Field for Reload {
    const EXPOSED: bool = Argv::EXPOSED;

    fn ty() -> Type {
        Type::Object { table: Self::table() }
    }

    fn take(value: &Value) -> Result<Self, Wrong> {
        read(value, &Self::table(), Self::choose)
    }

    fn give(&self) -> Value {
        match self {
            Self::Signal(signal) => json!({"signal": signal.give()}),
            Self::Command(argv, timeout) => {
                json!({"command": argv.give(), "timeout": timeout.give()})
            }
        }
    }
}

/// A signal that has a program read its configuration anew: `HUP`, `USR1`, `USR2` or `WINCH`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReloadSignal(pub StopSignal);

impl ReloadSignal {
    const ALL: [StopSignal; 4] =
        [StopSignal::Hangup, StopSignal::User1, StopSignal::User2, StopSignal::WindowChange];
}

impl Field for ReloadSignal {
    fn ty() -> Type {
        Type::choice(&Self::ALL.map(StopSignal::name))
    }

    fn take(value: &Value) -> Result<Self, Wrong> {
        let ty = Self::ty();
        let name = ty.word(value)?;
        let signal = Self::ALL.into_iter().find(|signal| signal.name() == name);
        Ok(Self(signal.expect("the words are their names")))
    }

    fn give(&self) -> Value {
        self.0.name().into()
    }
}
